package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// How long a reader waits before it connects again: less than the first delay
// after a connection that was good, then twice as long each time.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// Why a connection is given up, beside what the transport says.
var (
	errSilent = errors.New("the server is silent")
	errClosed = errors.New("the connection was closed before the stream ended")
	errBehind = errors.New("the server is in an epoch of the stream that is over")
)

// Follow yields the frames of a stream from offset from on until its end frame,
// through as many connections as it takes. A chunk begins where the text before
// it ended, except after an open frame that lies below: that one takes the
// reader back to its From. What a server sends against the rules is not yielded,
// and costs it the connection.
//
// A lost connection is no error, nor is a server that can't be reached for now:
// ctx bounds how long to try. Errors, each the last thing that is yielded, are
// the end of ctx, with its cause, and the server's refusals: plane.ErrNotFound,
// plane.ErrDenied, wire.ErrUnauthorized and the like. Nothing is read ahead of
// the loop but what fits into buffers; leaving it closes the connection.
//
// selector is the plane to read: auto, live or durable; "" means auto. In live,
// stale and absent end the frames, too.
func (c *Client) Follow(ctx context.Context, id string, from int64, selector string) iter.Seq2[plane.Frame, error] {
	return func(yield func(plane.Frame, error) bool) {
		f := follower{client: c, id: id, selector: selector, pos: from, yield: yield}
		for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
			before, began := f.pos, time.Now()
			lost, err := f.connect(ctx)
			switch {
			case err != nil:
				yield(plane.Frame{}, err)
				return
			case lost == nil:
				return
			case c.cfg.Lost != nil:
				c.cfg.Lost(id, lost)
			}
			if f.pos > before || time.Since(began) > maxDelay {
				delay = firstDelay
			}
			wait := time.NewTimer(delay/2 + rand.N(delay/2))
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				yield(plane.Frame{}, context.Cause(ctx))
				return
			}
		}
	}
}

// follower is a reader over its connections.
type follower struct {
	client   *Client
	id       string
	selector string
	yield    func(plane.Frame, error) bool

	pos    int64 // the text up to here was yielded
	epoch  int64 // of that text; 0 if not known
	opened bool  // an open frame was yielded
}

// connect reads one connection to its end. lost says why there should be
// another; without it, and without an error, all is read, or as much as is
// wanted.
func (f *follower) connect(ctx context.Context) (lost, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(f.client.cfg.Silence, func() { cancel(errSilent) })
	defer watch.Stop()
	req, err := f.request(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.do(req)
	if err != nil {
		return f.lost(ctx, err)
	}
	defer resp.Body.Close()
	body := watched{resp.Body, watch, f.client.cfg.Silence}
	if resp.StatusCode != http.StatusOK {
		said := refusal(resp.StatusCode, body)
		if passes(resp.StatusCode) {
			return f.lost(ctx, said)
		}
		return nil, said
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != sse.ContentType {
		return nil, fmt.Errorf("server answered with %q, not with an event stream", kind)
	}
	lost = f.frames(sse.NewReader(body, sse.Options{}))
	if lost == nil {
		return nil, nil
	}
	f.client.pass(req.URL)
	return f.lost(ctx, lost)
}

func (f *follower) request(ctx context.Context) (*http.Request, error) {
	at := plane.Frame{Kind: plane.KindOpen, From: f.pos, Epoch: f.epoch}
	query := url.Values{"from": {string(plane.AppendResume(nil, at))}}
	if f.selector != "" {
		query.Set("plane", f.selector)
	}
	u := f.client.stream(f.id)
	u.RawQuery = query.Encode()
	req, err := f.client.request(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", sse.ContentType)
	return req, nil
}

// lost tells a connection that broke from a reader's own context that ended.
func (f *follower) lost(ctx context.Context, why error) (lost, err error) {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return why, nil
	case errors.Is(cause, errSilent):
		return errSilent, nil
	default:
		return nil, cause
	}
}

// frames yields a connection's frames as they fit to what was yielded before,
// and returns nil when there is no more to yield.
func (f *follower) frames(events *sse.Reader) (lost error) {
	var rules *plane.Conform
	var out []plane.Frame
	for {
		event, err := events.Next()
		if err == io.EOF {
			return errClosed
		}
		if err != nil {
			return fmt.Errorf("read stream: %w", err)
		}
		in, err := plane.ParseFrame(event.Data)
		if err != nil {
			return err
		}
		_, in.Epoch, _ = plane.ParseResume(event.ID)
		if rules == nil || in.Kind == plane.KindOpen { // another open takes the reader back
			rules = plane.NewConform(f.id, f.pos)
		}
		if out, err = rules.Step(out[:0], in); err != nil {
			return err
		}
		if in.Kind == plane.KindOpen && in.Epoch != 0 && in.Epoch < f.epoch {
			return errBehind
		}
		for _, frame := range out {
			if frame.Terminal() && frame.Kind != plane.KindEnd && f.selector != "live" {
				return fmt.Errorf("the server lost the stream: %s", frame.Kind)
			}
			if frame, ok := f.fit(frame); ok && !f.yield(frame, nil) {
				return nil
			}
		}
		if rules.Done() {
			return nil
		}
	}
}

// fit cuts from a chunk what was yielded before, and takes the reader back where
// an open frame lies below. An open that changes nothing is left out, but for
// the first.
func (f *follower) fit(in plane.Frame) (out plane.Frame, ok bool) {
	switch in.Kind {
	case plane.KindOpen:
		ok = in.From < f.pos || !f.opened
		f.opened, f.pos, f.epoch = true, in.From, in.Epoch
		return in, ok
	case plane.KindChunk:
		in.Text = plane.Skip(in.Text, f.pos-in.From)
		in.From, f.pos = f.pos, in.Seq
	}
	return in, true
}

// watched is a body whose reads may not wait longer than silence.
type watched struct {
	io.Reader
	watch   *time.Timer
	silence time.Duration
}

func (w watched) Read(p []byte) (int, error) {
	w.watch.Reset(w.silence)
	defer w.watch.Stop()
	return w.Reader.Read(p)
}
