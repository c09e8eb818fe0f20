package generate

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

// Result is what a call told apart from its text.
type Result struct {
	upstream.Summary
	Attempts int // that were made
}

// Deltas makes the call and yields the text of its response, piece by piece. If it
// fails, the last pair is "" and the error: one of this package or of package
// upstream, or ctx's cause. res, which is not nil, is filled in meanwhile. The sequence
// can be ranged over once.
func (c *Client) Deltas(ctx context.Context, job Job, res *Result) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		*res = Result{}
		ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Length, &slowness{c.cfg.Length})
		defer cancel()
		t := tries{left: c.cfg.Patience}
		for {
			a := attempt{client: c, job: job, res: res, yield: yield}
			res.Attempts++
			err := a.run(ctx)
			switch {
			case err == nil || a.stopped:
				return
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			case !a.begun && t.again(ctx, err):
				c.log(ctx, job, "upstream is asked again", err)
				continue
			case ctx.Err() != nil: // while it waited
				err = context.Cause(ctx)
			default:
				c.log(ctx, job, "upstream failed", err)
			}
			yield("", err)
			return
		}
	}
}

// log tells the operator more than readers are told. What a provider said stays
// out of it, but for what readers see: it may repeat the key.
func (c *Client) log(ctx context.Context, job Job, what string, err error) {
	attrs := []slog.Attr{slog.String("upstream", job.to.Name), slog.Any("error", err)}
	if cause := errors.Unwrap(err); cause != nil && !isSaid(err) {
		attrs = append(attrs, slog.Any("cause", cause))
	}
	c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, what, attrs...)
}

func isSaid(err error) bool {
	_, ok := errors.AsType[*upstream.Error](err)
	return ok
}

// attempt is one request and its response.
type attempt struct {
	client  *Client
	job     Job
	res     *Result
	yield   func(string, error) bool
	begun   bool // something of the response was handed on
	stopped bool // the consumer wants no more
}

func (a *attempt) run(ctx context.Context) error {
	cfg := a.client.cfg
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := cfg.FirstByte
	if a.job.whole {
		first = cfg.Whole
	}
	silent := watch(first, cfg.Between, cancel)
	defer silent.stop()
	resp, err := a.client.post(ctx, a.job)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if a.job.Copy != nil && !isAnswer(resp.Header) {
		return &upstream.DataError{What: "is no stream of events, and no JSON"}
	}
	body := &body{from: resp.Body, left: cfg.MaxResponse, silent: silent, heard: func(p []byte) { a.heard(resp.Header, p) }}
	for delta, err := range upstream.Deltas(ctx, body, a.job.to.Format, upstream.Options{
		ContentType: resp.Header.Get("Content-Type"), Summary: &a.res.Summary,
	}) {
		switch {
		case err != nil && body.left < 0:
			return ErrTooLong
		case err != nil:
			if isSaid(err) {
				a.rest(body, cancel)
			}
			return err
		}
		a.begun = true
		if !a.yield(delta, nil) {
			a.stopped = true
			return nil
		}
	}
	a.rest(body, cancel)
	return nil
}

// heard hands on what was read, as it is.
func (a *attempt) heard(header http.Header, p []byte) {
	if a.job.Copy == nil {
		return
	}
	if !a.begun {
		a.begun = true
		a.job.Copy.Head(header)
	}
	a.job.Copy.Add(p)
}

const (
	restTime  = 250 * time.Millisecond
	restBytes = 64 << 10
)

// rest reads what follows the end of a response, such as the last line's end: for who
// wants it as it is, and so that its connection can be used again. A provider that
// keeps it open is not waited for.
func (a *attempt) rest(body io.Reader, cancel context.CancelCauseFunc) {
	late := time.AfterFunc(restTime, func() { cancel(nil) })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, restBytes) // the response is whole without it
}

// isAnswer reports whether a body may be handed on as it is: a page is not what was
// asked for.
func isAnswer(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return h.Get("Content-Type") == ""
	}
	return kind == "text/event-stream" || kind == "application/json"
}

// watchdog ends an attempt whose provider is silent while it is listened to.
type watchdog struct {
	cancel  context.CancelCauseFunc
	first   *time.Timer // until the first byte
	between time.Duration
	later   *time.Timer // while a read after that waits
}

func watch(first, between time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{cancel: cancel, between: between}
	w.first = w.after(first)
	return w
}

func (w *watchdog) after(limit time.Duration) *time.Timer {
	return time.AfterFunc(limit, func() { w.cancel(&silence{limit}) })
}

// listen is called before a read, heard after one that brought something. Between the
// two the time counts, and not while the consumer takes its time.
func (w *watchdog) listen() {
	switch {
	case w.first != nil:
	case w.later == nil:
		w.later = w.after(w.between)
	default:
		w.later.Reset(w.between)
	}
}

func (w *watchdog) heard() {
	w.stop()
	w.first = nil
}

func (w *watchdog) stop() {
	for _, t := range []*time.Timer{w.first, w.later} {
		if t != nil {
			t.Stop()
		}
	}
}

// body is a response's, bounded in bytes and in silence.
type body struct {
	from   io.Reader
	left   int64
	silent *watchdog
	heard  func([]byte)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.silent.listen()
	n, err := b.from.Read(p)
	if n > 0 {
		b.silent.heard()
		if b.left -= int64(n); b.left < 0 {
			return 0, ErrTooLong
		}
		b.heard(p[:n])
	}
	return n, err
}
