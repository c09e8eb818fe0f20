package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/router/wire"
)

// What bounds a reader's reconnecting.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second

	// silence is how long a connection may say nothing: the server pings three
	// times as often.
	silence = 45 * time.Second
)

// Follow yields the frames of a stream from offset from on until its end frame,
// through as many connections as it takes. Chunks abut: each begins where the
// text before it ended, except after an open frame that lies below, which takes
// the reader back to its From. A broken connection is no error; that the stream
// is not there, or not to be read, is, and so is the end of ctx.
//
// selector is auto, live or durable: which plane to read; "" means auto. In
// live, stale and absent end the frames, too.
func (c *Client) Follow(ctx context.Context, id string, from int64, selector string) iter.Seq2[plane.Frame, error] {
	return func(yield func(plane.Frame, error) bool) {
		f := follower{client: c, id: id, selector: selector, pos: from}
		delay := firstDelay
		for {
			before := f.pos
			again, err := f.connect(ctx, yield)
			switch {
			case err != nil:
				yield(plane.Frame{}, err)
				return
			case !again:
				return
			case f.pos > before:
				delay = firstDelay
			}
			wait := time.NewTimer(delay/2 + rand.N(delay/2))
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				yield(plane.Frame{}, ctx.Err())
				return
			}
			delay = min(2*delay, maxDelay)
		}
	}
}

// follower is a reader over its connections.
type follower struct {
	client   *Client
	id       string
	selector string
	pos      int64 // the text up to here was yielded
	epoch    int64 // of that text; 0 if not known
	opened   bool  // an open frame was yielded
}

// connect reads one connection to its end, and reports whether there should be
// another.
func (f *follower) connect(ctx context.Context, yield func(plane.Frame, error) bool) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	u := f.client.stream(f.id)
	query := url.Values{"from": {f.resume()}}
	if f.selector != "" {
		query.Set("plane", f.selector)
	}
	u.RawQuery = query.Encode()
	req, err := f.client.request(ctx, http.MethodGet, u, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", sse.ContentType)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := f.client.http.Do(req)
	if err != nil {
		return f.lost(ctx)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if said := wire.Decode(resp.StatusCode, answer); said.Status < 500 {
			return false, said
		}
		return true, nil
	}
	return f.frames(ctx, sse.NewReader(alive{resp.Body, watch}, sse.Options{}), yield)
}

// frames yields a connection's frames as they fit to what was yielded before.
// One that breaks the rules ends the connection, not the reading.
func (f *follower) frames(ctx context.Context, events *sse.Reader, yield func(plane.Frame, error) bool) (again bool, err error) {
	check := plane.NewConform(f.id, f.pos)
	var out []plane.Frame
	for {
		event, err := events.Next()
		if err != nil {
			return f.lost(ctx)
		}
		parsed, err := plane.ParseFrame(event.Data)
		if err != nil {
			return f.lost(ctx)
		}
		if _, epoch, ok := plane.ParseResume(event.ID); ok {
			f.epoch = epoch
		}
		if out, err = check.Step(out[:0], parsed); err != nil {
			return f.lost(ctx)
		}
		for _, frame := range out {
			if frame, ok := f.fit(frame); ok && !yield(frame, nil) {
				return false, nil
			}
		}
		if check.Done() {
			return false, nil
		}
	}
}

// resume is the position to go on from.
func (f *follower) resume() string {
	at := plane.Frame{Kind: plane.KindOpen, From: f.pos, Epoch: f.epoch}
	return string(plane.AppendResume(nil, at))
}

// fit cuts from a chunk what was yielded before, and takes the reader back where
// an open frame lies below. An open that changes nothing is left out, but for
// the first.
func (f *follower) fit(in plane.Frame) (out plane.Frame, ok bool) {
	switch in.Kind {
	case plane.KindOpen:
		ok = in.From < f.pos || !f.opened
		f.opened, f.pos = true, min(f.pos, in.From)
		return in, ok
	case plane.KindChunk:
		in.Text = plane.Skip(in.Text, f.pos-in.From)
		in.From, f.pos = f.pos, in.Seq
	}
	return in, true
}

// lost reports whether a reader whose connection broke should connect again:
// unless it was its own context that ended.
func (f *follower) lost(ctx context.Context) (again bool, err error) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errSilent) {
		return false, cause
	}
	return true, nil
}

// errSilent is why a connection that said nothing for too long is given up.
var errSilent = errors.New("server is silent")

// alive puts off the watch at whatever comes.
type alive struct {
	io.Reader
	watch *time.Timer
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.watch.Reset(silence)
	}
	return n, err
}
