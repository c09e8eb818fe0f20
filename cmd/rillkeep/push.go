package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
)

type pushCmd struct {
	remote
	ID       string        `arg:"" help:"The stream's id."`
	Format   string        `help:"What the input is: openai, openai-responses, anthropic, ndjson or text." enum:"openai,openai-responses,anthropic,ndjson,text" default:"text"`
	Producer string        `help:"Who produces, kept with the stream." placeholder:"NAME"`
	Meta     string        `help:"JSON to keep with the stream." placeholder:"JSON"`
	Patience time.Duration `help:"How long to try until a node takes the stream, at first and whenever it is lost; 0 is for ever." default:"1m" placeholder:"TIME"`
	Rate     int           `help:"Push no more deltas a second; of text, each is a word." placeholder:"N"`
}

// Help is printed below the flags.
func (pushCmd) Help() string {
	return `The stream is sealed complete when the input is, error if the input reports one, and
interrupted if it breaks off or the command is stopped by a signal. The exit code is
that of the stream's end: 0 complete, 3 cancelled, 4 error, 5 interrupted; 1 if no node
could be reached any more before it was known. A node that is lost, and comes back or
is replaced by another that the server's address leads to, loses nothing. Formats:
  openai             chat completions with "stream": true
  openai-responses   responses with "stream": true
  anthropic          messages with "stream": true
  ndjson             lines {"text":"…"} or "…"
  text               any UTF-8

Examples:
  curl -N https://…/v1/chat/completions -d '{"stream":true,…}' | rillkeep push --format openai m1
  printf 'Hello' | rillkeep push m2`
}

// Validate is called before Run.
func (p pushCmd) Validate() error {
	if p.Rate < 0 || p.Rate > 100_000 {
		return errors.New("--rate is 1 to 100000 deltas a second")
	}
	if p.Patience < 0 {
		return errors.New("--patience is a time, such as 30s")
	}
	if p.Meta != "" && !json.Valid([]byte(p.Meta)) {
		return errors.New(`--meta is not JSON, such as '{"chat":17}'`)
	}
	return nil
}

// lastCall is how long a command that is told to stop has to deliver what it
// has read.
const lastCall = 30 * time.Second

// errStopped is how the input ends when the command is told to stop.
var errStopped = errors.New("stopped")

// Run opens the stream, pumps the input into it and seals it.
func (p pushCmd) Run(ctx context.Context, con *console) error {
	c, err := p.client(nil)
	if err != nil {
		return err
	}
	// Once there is a stream, the text and its end are owed to the readers also when
	// the command is told to stop.
	told := ctx
	ctx, cancel := outlive(ctx, lastCall)
	defer cancel()
	node := absence{con: con}
	unopened := context.AfterFunc(told, cancel)
	out, err := c.Produce(ctx, p.ID, client.Producing{
		Producer: p.Producer, Meta: json.RawMessage(p.Meta), Patience: p.Patience, Progress: node.back, Lost: node.lost,
	})
	unopened()
	if err != nil {
		return err
	}
	input, breakOff := detach(con.in)
	defer breakOff(errStopped)
	defer context.AfterFunc(told, func() { breakOff(errStopped) })()
	go func() { <-out.Done(); breakOff(errStopped) }() // done when the stream is sealed, at the latest

	pumped := out.Pump(ctx, p.deltas(ctx, input))
	if failed := out.Err(); failed != nil {
		pumped = failed
	}
	if pumped == nil && told.Err() != nil {
		// One Ctrl-C stops the whole pipeline: the input may have ended by it.
		pumped = &client.SourceError{Err: errStopped}
	}
	sealed, err := p.seal(ctx, out, pumped)
	if isAway(err) {
		left := &leftError{id: p.ID, why: plain(err), durable: out.Acked().DurableSeq, unreached: errors.Is(err, client.ErrUnreached)}
		sealed, err = p.left(context.WithoutCancel(ctx), c, left)
	}
	if err != nil {
		return err
	}
	if p.JSON {
		if err := p.print(con, sealed, ""); err != nil {
			return err
		}
	}
	why := ""
	if pumped != nil && !errors.Is(pumped, errStopped) && !errors.Is(pumped, plane.ErrClosed) && !errors.Is(pumped, plane.ErrCancelled) {
		why = plain(pumped)
	}
	return ended(con, sealed.Status, why)
}

// deltas are what the input says.
func (p pushCmd) deltas(ctx context.Context, input io.Reader) iter.Seq2[string, error] {
	format := upstream.Format(p.Format)
	deltas := upstream.Deltas(ctx, input, format, upstream.Options{})
	if p.Rate == 0 {
		return deltas
	}
	if format == upstream.Text {
		deltas = words(deltas)
	}
	return paced(ctx, deltas, p.Rate)
}

// seal ends the stream as the input ended, or answers how another ended it.
func (p pushCmd) seal(ctx context.Context, out *client.Producer, pumped error) (sealed wire.Sealed, err error) {
	source, ours := errors.AsType[*client.SourceError](pumped)
	switch {
	case pumped == nil, errors.Is(pumped, plane.ErrCancelled), errors.Is(pumped, plane.ErrClosed):
		sealed, err = out.Close(ctx)
	case !ours, errors.Is(source, errStopped), errors.Is(source, upstream.ErrTruncated):
		sealed, err = out.Interrupt(ctx)
	default:
		sealed, err = out.Fail(ctx, source.Error())
	}
	return sealed, err
}

// absence says when the node is lost, and when one is found again. Its methods are called
// one after the other.
type absence struct {
	con  *console
	said bool
}

func (a *absence) lost(why error) {
	if !a.said {
		a.said = true
		a.con.say("the node is away: %s; trying again", plain(why))
	}
}

func (a *absence) back(wire.Ack) {
	if a.said {
		a.said = false
		a.con.say("the stream goes on")
	}
}

// isAway reports whether nobody can be told how a stream is to end.
func isAway(err error) bool {
	return errors.Is(err, client.ErrUnreached) || errors.Is(err, wire.ErrUnavailable)
}

// leftTime is how long a push asks what became of a stream whose node went away.
const leftTime = 10 * time.Second

// left says what is safe of a stream whose node went away, and how to go on; or how
// it has ended, if another node knows that already.
func (p pushCmd) left(ctx context.Context, c *client.Client, left *leftError) (wire.Sealed, error) {
	ctx, cancel := context.WithTimeout(ctx, leftTime)
	defer cancel()
	if snap, err := c.Snapshot(ctx, p.ID); err == nil {
		if snap.Status.Ended() {
			return wire.Sealed{Status: snap.Status, Seq: snap.Seq, DurableSeq: snap.DurableSeq}, nil
		}
		left.durable = max(left.durable, snap.DurableSeq)
	}
	return wire.Sealed{}, left
}

// leftError says that a stream was left in the middle, as its node went away, or
// the one that was pushed to, which need not have had it.
type leftError struct {
	id, why   string
	durable   int64 // units
	unreached bool
}

func (e *leftError) Error() string {
	if e.unreached {
		return fmt.Sprintf("stream %s was left without an end: %s; %d units are known to be durable", word(e.id), e.why, e.durable)
	}
	return fmt.Sprintf("the node of stream %s went away in mid-stream: %s; %d units are known to be durable, and the stream will end interrupted",
		word(e.id), e.why, e.durable)
}

// detach returns in as something that can be broken off in the middle of a read:
// one of a terminal or a pipe can't be ended by other means. The goroutine that
// copies may outlive the command by the time that the process takes to exit.
func detach(in io.Reader) (out io.Reader, breakOff func(error)) {
	from, to := io.Pipe()
	breakOff = func(err error) { _ = to.CloseWithError(err) } // has no error, and the first one counts
	go func() {
		_, err := io.Copy(to, in)
		breakOff(err)
	}()
	return from, breakOff
}

// outlive returns a context that ends when ctx has been done for a while.
func outlive(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(while, cancel) })
	return out, func() { stop(); cancel() }
}
