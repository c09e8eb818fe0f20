package plane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

// fault is what befalls one write.
type fault int

const (
	none    fault = iota
	fail          // refused before it runs
	loseAck       // it runs, and the answer is lost
	hang          // no answer until the deadline, and nothing done
	late          // no answer until the deadline; it runs a while after
	partial       // callback mode: part is stored, and said so
	liar          // callback mode: all is stored, and nonsense is answered
)

var (
	errDown = errors.New("the store is down")
	errAck  = errors.New("the answer was lost")
)

// world is the durable side of the model: one row, or one application that
// keeps the text for itself, with what goes wrong there. It keeps text as UTF-16
// and notes whatever the plane should not have asked for.
type world struct {
	maxSlice int64
	tables   bool
	later    sync.WaitGroup // writes that run after their deadline

	mu        sync.Mutex // guards below
	exists    bool
	row       plane.Row // row.Seq == len(text)
	text      []uint16
	confirmed int64 // the most that an answer said is stored
	told      bool  // an answer said that the row has ended
	lost      bool  // the row is another's
	answer    int64 // what a partial or lying answer says
	faults    []fault
	badReads  int
	down      bool
	latency   time.Duration
	busy      bool
	writes    []plane.Slice // not yet looked at by the machine
	wrong     []string
}

// wrongf notes a breach of the store's contract. w.mu is held.
func (w *world) wrongf(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// enter begins a write and draws its fault.
func (w *world) enter(ctx context.Context) (fault, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		w.wrongf("a store call has no deadline")
	}
	if w.busy {
		w.wrongf("two writes of one stream overlap")
	}
	w.busy = true
	if w.down {
		return fail, w.latency
	}
	if len(w.faults) == 0 {
		return none, w.latency
	}
	f := w.faults[0]
	w.faults = w.faults[1:]
	return f, w.latency
}

func (w *world) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

// write runs apply as well as the next fault lets it.
func (w *world) write(ctx context.Context, apply func(fault) (plane.Row, error)) (plane.Row, error) {
	f, latency := w.enter(ctx)
	defer w.leave()
	if err := sleep(ctx, latency); err != nil {
		return plane.Row{}, err
	}
	switch f {
	case fail:
		return plane.Row{}, errDown
	case hang, late:
		<-ctx.Done()
		if f == late {
			w.later.Go(func() {
				time.Sleep(300 * time.Millisecond)
				w.mu.Lock()
				defer w.mu.Unlock()
				_, _ = apply(none)
			})
		}
		return plane.Row{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	row, err := apply(f)
	if f == loseAck {
		return plane.Row{}, errAck
	}
	if err == nil && f != liar {
		w.tell(row)
	}
	return row, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slice notes what is wrong with a slice. w.mu is held.
func (w *world) slice(from, seq int64, text string) []uint16 {
	if seq <= from || seq-from > w.maxSlice {
		w.wrongf("a slice %d..%d, of at most %d", from, seq, w.maxSlice)
	}
	return w.look("append", from, seq, text)
}

// look notes what is wrong with text that should be from..seq. w.mu is held.
func (w *world) look(what string, from, seq int64, text string) []uint16 {
	units := plane.UnitsOf(text)
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		w.wrongf("%s %d..%d: %q is no valid text", what, from, seq, text)
	}
	if int64(len(units)) != seq-from {
		w.wrongf("%s %d..%d has %d units", what, from, seq, len(units))
	}
	w.writes = append(w.writes, plane.Slice{From: from, Seq: seq, Text: text})
	return units
}

func (w *world) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	return w.write(ctx, func(fault) (plane.Row, error) {
		own := strings.HasPrefix(w.row.Token, claim.Node+"/") && w.row.Status == plane.StatusStreaming && w.row.Seq == 0
		switch {
		case own: // the answer of the first claim was lost
		case w.exists:
			return plane.Row{}, plane.ErrExists
		default:
			w.exists = true
			w.row = plane.Row{Status: plane.StatusStreaming, Epoch: 1, Token: claim.Node + "/1"}
		}
		return w.row, nil
	})
}

func (w *world) Append(ctx context.Context, s plane.Slice) (plane.Row, error) {
	return w.write(ctx, func(fault) (plane.Row, error) {
		units := w.slice(s.From, s.Seq, s.Text)
		if w.row.Seq == s.From && w.row.Status == plane.StatusStreaming && w.row.Token == s.Token {
			w.text = append(w.text, units...)
			w.row.Seq = s.Seq
		}
		return w.row, nil
	})
}

func (w *world) Seal(ctx context.Context, s plane.Seal) (plane.Row, error) {
	return w.write(ctx, func(fault) (plane.Row, error) {
		lacks := s.Base > int64(len(w.text)) // others have seen to that
		var units []uint16
		if !lacks {
			units = w.look("seal", s.Base, s.Seq, s.Text)
		}
		if s.Base > s.From || lacks && !w.lost {
			w.wrongf("a seal of what lies above %d, with %d durable and %d stored", s.Base, s.From, len(w.text))
			return w.row, nil
		}
		switch {
		case w.row.Token != s.Token || w.row.Status != plane.StatusStreaming:
		case lacks:
			w.row.Seq, w.row.Status = int64(len(w.text)), plane.StatusInterrupted
		default:
			w.text = append(slices.Clip(w.text[:s.Base]), units...)
			w.row.Seq, w.row.Status, w.row.Error = s.Seq, s.Status, s.Error
			if s.Status == plane.StatusComplete && w.row.Cancel {
				w.row.Status = plane.StatusCancelled
			}
		}
		return w.row, nil
	})
}

func (w *world) Read(ctx context.Context, _ string) (plane.Row, error) {
	w.mu.Lock()
	latency := w.latency
	w.mu.Unlock()
	if err := sleep(ctx, latency); err != nil {
		return plane.Row{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.badReads > 0 {
		w.badReads--
		return plane.Row{}, errDown
	}
	w.tell(w.row)
	return w.row, nil
}

// commit is the world as the application of callback mode.
func (w *world) commit(ctx context.Context, c plane.Change) (plane.Answer, error) {
	var said plane.Answer
	_, err := w.write(ctx, func(f fault) (plane.Row, error) {
		var err error
		said, err = w.change(c, f)
		said.CancelRequested = w.row.Cancel
		row := w.row
		if said.Seq != nil {
			row.Seq = *said.Seq
		}
		return row, err
	})
	if err != nil {
		return plane.Answer{}, err
	}
	return said, nil
}

// change applies what of c is new. w.mu is held.
func (w *world) change(c plane.Change, f fault) (said plane.Answer, err error) {
	switch c.Kind {
	case plane.ChangeOpen:
		if !w.exists {
			w.exists, w.row.Status = true, plane.StatusStreaming
		}
		return said, nil
	case plane.ChangeAppend:
		w.extend(c.From, w.slice(c.From, c.Seq, c.Text), f)
	case plane.ChangeClose:
		w.extend(c.BodyFrom, w.look("close", c.BodyFrom, c.Seq, c.Body), f)
		if c.BodyFrom > c.From || c.From > c.Seq {
			w.wrongf("close from %d, body from %d to %d", c.From, c.BodyFrom, c.Seq)
		}
		if (f != partial || w.row.Seq == c.Seq) && !w.row.Status.Ended() {
			w.row.Status, w.row.Error = c.Status, c.Error
		}
	}
	switch f {
	case partial:
		seq := w.row.Seq
		said.Seq = &seq
	case liar:
		lie := c.Seq + 1 + w.answer
		if w.answer < 0 {
			lie = w.answer
		}
		said.Seq = &lie
	}
	return said, nil
}

// extend adds what of units, which start at from, is not stored yet: all, or
// part of it. w.mu is held.
func (w *world) extend(from int64, units []uint16, f fault) {
	if from > w.row.Seq {
		w.wrongf("a change from %d leaves a hole after %d", from, w.row.Seq)
		return
	}
	fresh := units[min(int64(len(units)), w.row.Seq-from):]
	if f == partial {
		keep := max(0, w.answer)
		if high := slices.IndexFunc(fresh, isHigh); w.answer == 5 && high >= 0 {
			keep = int64(high) + 1 // half a pair
		}
		fresh = fresh[:min(int64(len(fresh)), keep)]
	}
	if len(fresh) > 0 && w.row.Status != plane.StatusStreaming {
		w.wrongf("text was added after the end")
	}
	w.text = append(w.text, fresh...)
	w.row.Seq = int64(len(w.text))
}

func isHigh(unit uint16) bool { return unit>>10 == 0xD800>>10 }

// snapshot returns what is stored, and what went wrong so far.
func (w *world) snapshot() (row plane.Row, text []uint16, confirmed int64, wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.row, slices.Clip(w.text), w.confirmed, w.wrong
}

// tell notes what an answer says. w.mu is held.
func (w *world) tell(row plane.Row) {
	if row.Seq <= int64(len(w.text)) { // else another put it there
		w.confirmed = max(w.confirmed, row.Seq)
	}
	w.told = w.told || row.Status.Ended() && !w.lost
}

// saidEnded reports whether the plane was told that its row has ended.
func (w *world) saidEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told
}

// seen returns the writes that came since it was last asked.
func (w *world) seen() []plane.Slice {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.writes
	w.writes = nil
	return writes
}

// alter lets f change the world between two calls of the plane.
func (w *world) alter(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}
