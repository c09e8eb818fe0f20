package plane

import (
	"errors"
	"fmt"
)

// What a caller can act on. All are matched with errors.Is.
var (
	// Refusals of an open; none is retried.
	ErrNotFound   = errors.New("stream not found")                     // no row of that id
	ErrExists     = errors.New("stream exists already")                // the row holds text, or chunks are left of an earlier one
	ErrNullLength = errors.New("stream's stored length is NULL")       // mapped tables only
	ErrHeld       = errors.New("stream is being streamed by another")  // status streaming under another token
	ErrLostRace   = errors.New("another opened the stream first")      // the compare-and-swap of the token failed
	ErrOpenHere   = errors.New("stream is open on this node already")  // package actor
	ErrDraining   = errors.New("node is draining and opens no stream") // package actor
	ErrFull       = errors.New("node holds as much as it may")         // package actor: streams, or text

	// Answers to a producer.
	ErrClosed   = errors.New("stream is closed")
	ErrFenced   = errors.New("stream is owned by another") // the row's token is not ours any more, or the row is gone: then ErrNotFound, too
	ErrGap      = errors.New("append starts past the end of the text")
	ErrConflict = errors.New("append overlaps other text")
	ErrCut      = errors.New("append with an offset ends inside a character")
	// ErrMoved says that the stream goes to another node, or has gone: try again,
	// there. It comes as an OffsetError: a half of a pair that was received, and waits
	// for the other one, does not go along.
	ErrMoved = errors.New("stream moves to another node")
	// ErrSuperseded is an ErrFenced of a producer alone: another has resumed the stream,
	// which goes on with that one.
	ErrSuperseded = fmt.Errorf("%w: a later producer has resumed it", ErrFenced)
	// ErrProducerEpoch answers a producer that is later than any this node knows of: it
	// has the stream no more, and has not been told yet. Try again, which is answered
	// elsewhere then. Nothing is said of the producer.
	ErrProducerEpoch = errors.New("producer epoch is later than any known here; try again")
	// ErrCancelled is why a pump's context ends when its stream was asked to stop.
	ErrCancelled = errors.New("stream was asked to stop")
	ErrTooLong   = errors.New("stream would grow past its limit")

	// ErrShort says that not everything produced is durable; see ShortError.
	ErrShort = errors.New("not everything produced is durable")

	// ErrBroken says that a store refuses what it should take, and would refuse
	// it again: a constraint that somebody added, a right that is missing. A round
	// ends with it; later ones try again, ever more seldom.
	ErrBroken = errors.New("store refuses what it should take")

	// ErrWentBack says that a store has less than it had confirmed: its server was
	// replaced by one that lagged behind, or a backup was played in. Where the
	// stream has the text, it commits it again; else it is ErrTextLost.
	ErrWentBack = errors.New("store lost what it had confirmed")

	// ErrTextLost says that a stream has ended short, interrupted: text that was
	// durable, and is in memory no longer, is missing in the store.
	ErrTextLost = errors.New("durable text is missing in the store")

	// ErrBusy says that another session of the database holds a lock on what a call
	// needs, as a rule the stream's row. The call has changed nothing; try it again
	// later.
	ErrBusy = errors.New("another session of the database has it locked")

	// ErrNoAnswer says that a write got no answer from the store, and may take effect
	// yet: nothing must be begun that it would hit.
	ErrNoAnswer = errors.New("the store has not answered an earlier write")

	// ErrDenied says that authorization refused; package actor.
	ErrDenied = errors.New("not allowed")

	// ErrNoReadBack is what a Store's Read answers if it has nothing to read:
	// after a failed append the stream then keeps what was confirmed before.
	ErrNoReadBack = errors.New("store cannot be read back")
)

// ShortError is an ErrShort with the two lengths: a flush or a seal that ended
// before the store held all that was produced.
type ShortError struct {
	Durable, Produced int64 // UTF-16 code units
	Cause             error // what the store said last; may be nil
}

func (e *ShortError) Error() string {
	s := fmt.Sprintf("durable %d of %d produced", e.Durable, e.Produced)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is makes a ShortError match ErrShort.
func (e *ShortError) Is(target error) bool { return target == ErrShort }

// Unwrap gives what the store said last.
func (e *ShortError) Unwrap() error { return e.Cause }

// OffsetError is an ErrGap, an ErrConflict or an ErrMoved with the offset that the
// producer should append at next.
type OffsetError struct {
	Kind error // ErrGap, ErrConflict or ErrMoved
	From int64 // where the refused append started
	Want int64 // where the next one should start
}

func (e *OffsetError) Error() string {
	if e.Kind == ErrMoved {
		return fmt.Sprintf("%v: the text that goes along ends at %d", e.Kind, e.Want)
	}
	return fmt.Sprintf("%v: append at %d, the text ends at %d", e.Kind, e.From, e.Want)
}

// Unwrap gives the kind, so that errors.Is finds it.
func (e *OffsetError) Unwrap() error { return e.Kind }
