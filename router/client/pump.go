package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// maxPiece bounds a line's delta, in bytes: fully escaped, six times as much, it
// is still below the megabyte that a node takes as a line.
const maxPiece = 128 << 10

// quiet is how long a pump sends nothing at the most.
const quiet = 5 * time.Second

// SourceError is the error of a pump's own source. What came before it was
// pumped, and is acknowledged.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }

// Unwrap gives the source's error.
func (e *SourceError) Unwrap() error { return e.Err }

// Pump sends the deltas of source, of any size and the first one at offset from,
// in one long request. It returns the last acknowledgement, and leaves the
// stream open. An Ack that says Cancelled, and no error, means that the stream
// was asked to stop; if before the pump began, it took nothing. An error is the source's, a *SourceError, or that of the
// server or the way there: then the Ack is the last that came, and the rest of
// what was sent may have arrived or not. A stream that goes to another node is
// followed there: what it did not take along is sent again, from the last million
// units, which are kept until they are durable; a source that is further ahead
// waits.
//
// The source runs on a goroutine of its own, which ends before Pump does. Its
// context ends as soon as the server takes no more, and it must end then, too.
// progress, if not nil, is called on the caller's goroutine with each
// acknowledgement but the last.
func (c *Client) Pump(
	ctx context.Context, id string, from int64,
	source func(context.Context) iter.Seq2[string, error], progress func(wire.Ack),
) (wire.Ack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := newBacklog(from, maxBacklog)
	var reading sync.WaitGroup
	reading.Go(func() { b.fill(ctx, source) })
	ack, err := c.pumpOn(ctx, id, from, b, func(ack wire.Ack) {
		b.forget(ack.DurableSeq)
		if progress != nil {
			progress(ack)
		}
	})
	cancel()
	reading.Wait()
	if errors.Is(err, plane.ErrCancelled) {
		ack, err = wire.Ack{Seq: from, Cancelled: true}, nil
	}
	if failed := b.failed(); err == nil && !ack.Cancelled && failed != nil {
		err = &SourceError{failed}
	}
	return ack, err
}

// pumpOn pumps to whichever node has the stream.
func (c *Client) pumpOn(ctx context.Context, id string, from int64, b *backlog, progress func(wire.Ack)) (wire.Ack, error) {
	w, patience := backoff{}, time.Now().Add(moveTime)
	for {
		ack, err := c.pumpOnce(ctx, id, at{from: from}, b, func(ack wire.Ack) {
			w, patience = backoff{}, time.Now().Add(moveTime)
			progress(ack)
		})
		moved, ok := errors.AsType[*plane.OffsetError](err)
		if !ok || !errors.Is(err, plane.ErrMoved) || !b.rewind(moved.Want) || time.Now().After(patience) || !w.wait(ctx, nil) {
			return ack, err
		}
		from = moved.Want
	}
}

// at is where a producer goes on, and which one it is.
type at struct {
	from  int64
	epoch string // the producerEpoch of its open; "" is nobody in particular
}

func (a at) query() string {
	q := url.Values{}
	if a.from >= 0 {
		q.Set("from", strconv.FormatInt(a.from, 10))
	}
	if a.epoch != "" {
		q.Set("epoch", a.epoch)
	}
	return q.Encode()
}

// pumpOnce is one request.
func (c *Client) pumpOnce(ctx context.Context, id string, to at, b *backlog, progress func(wire.Ack)) (wire.Ack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, sender := io.Pipe()
	u := c.stream(id, "pump")
	u.RawQuery = to.query()
	req, err := c.request(ctx, http.MethodPost, u, body)
	if err != nil {
		return wire.Ack{}, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")

	var sending sync.WaitGroup
	sending.Go(func() { send(ctx, sender, b) })
	sending.Go(func() { beat(ctx, sender) })
	ack, err := c.acks(req, progress)
	cancel()
	_ = body.Close() // a PipeReader's Close has no error
	sending.Wait()
	return ack, err
}

// send writes what the source gave into the request. The request ends well in any
// case: what was sent counts.
func send(ctx context.Context, to *io.PipeWriter, b *backlog) {
	defer to.Close()
	for {
		delta, ok := b.take(ctx)
		if !ok {
			return
		}
		for delta != "" {
			n := pieceOf(delta)
			if _, err := to.Write(deltaLine(delta[:n])); err != nil {
				return // the server takes no more, and says why
			}
			delta = delta[n:]
		}
	}
}

// beat writes blank lines, which say nothing. While a source is silent they keep
// what is on the way to the server from giving the request up, and show that a
// connection is lost: until its answer has begun, net/http notices that only when
// it writes. So the first ones come soon.
func beat(ctx context.Context, to *io.PipeWriter) {
	pause := 100 * time.Millisecond
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			pause = min(2*pause, quiet)
			next.Reset(pause)
			if _, err := to.Write([]byte("\n")); err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// pieceOf returns how many bytes of delta make the next line, whole characters.
func pieceOf(delta string) int {
	if len(delta) <= maxPiece {
		return len(delta)
	}
	n := maxPiece
	for n > maxPiece-utf8.UTFMax && !utf8.RuneStart(delta[n]) {
		n--
	}
	return n
}

// deltaLine returns {"text":"…"} and a newline. Halves of surrogate pairs (in
// WTF-8) stay halves.
func deltaLine(delta string) []byte {
	line := append([]byte(`{"text":`), plane.AppendJSONString(nil, delta)...)
	return append(line, "}\n"...)
}

// acks makes the request and reads its answer to the last line.
func (c *Client) acks(req *http.Request, progress func(wire.Ack)) (last wire.Ack, err error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	watch := time.AfterFunc(c.cfg.Silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := c.do(req.WithContext(ctx))
	if err != nil {
		return last, cmp.Or(silence(ctx), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return last, refusal(resp.StatusCode, resp.Body)
	}
	lines := json.NewDecoder(watched{resp.Body, watch, c.cfg.Silence})
	for {
		var line wire.PumpLine
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			c.pass(req.URL)
			return last, fmt.Errorf("read acknowledgements: %w", cmp.Or(silence(ctx), err))
		case line.Error != nil:
			return line.Ack, wire.Restore(line.Error)
		}
		last = line.Ack
		if line.Done {
			return last, nil
		}
		if progress != nil {
			progress(last)
		}
	}
}

// silence is errSilent if that is why ctx has ended.
func silence(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return nil
}
