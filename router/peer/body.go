package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// outgoing is a request's body for one attempt at sending it. As long as nothing
// of it was read, the next attempt can have it. A nil one is no body.
type outgoing struct {
	body io.ReadCloser

	mu      sync.Mutex // guards below
	touched bool
	over    bool // the transport has closed it, or the next attempt has it
	settled bool // there is no next attempt
}

func newOutgoing(body io.ReadCloser) *outgoing {
	if body == nil || body == http.NoBody {
		return nil
	}
	return &outgoing{body: body}
}

var errUsedUp = errors.New("body is not to be read any more")

func (o *outgoing) Read(p []byte) (int, error) {
	o.mu.Lock()
	if o.over {
		o.mu.Unlock()
		return 0, errUsedUp
	}
	o.touched = true
	o.mu.Unlock()
	return o.body.Read(p)
}

func (o *outgoing) Close() error {
	o.mu.Lock()
	o.over = true
	keep := !o.touched && !o.settled
	o.mu.Unlock()
	if keep {
		return nil
	}
	return o.body.Close()
}

// renew gives the body of the next attempt, if there can be one: as it is, if
// nothing of it was read, or else another copy if the caller has them.
func (o *outgoing) renew(another func() (io.ReadCloser, error)) (next *outgoing, ok bool) {
	if o == nil {
		return nil, true
	}
	o.mu.Lock()
	untouched := !o.touched
	o.over = true
	o.mu.Unlock()
	if untouched {
		return &outgoing{body: o.body}, true
	}
	if another == nil {
		return o, false
	}
	body, err := another()
	if err != nil {
		return o, false
	}
	o.body.Close()
	return &outgoing{body: body}, true
}

// settle says that there is no next attempt. After a failure nobody else will
// close the body.
func (o *outgoing) settle(failed bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.settled = true
	last := failed || o.over && !o.touched
	o.mu.Unlock()
	if last {
		o.body.Close()
	}
}

// incoming is an answer's body. A read that waits too long ends it.
type incoming struct {
	body   io.ReadCloser
	idle   time.Duration           // 0 is no bound
	timer  *time.Timer             // nil before the first read, and without a bound
	cancel context.CancelCauseFunc // the exchange's
	ctx    context.Context
}

var errSilent = fmt.Errorf("it fell silent: %w", os.ErrDeadlineExceeded)

func newIncoming(ctx context.Context, body io.ReadCloser, idle time.Duration, cancel context.CancelCauseFunc) io.ReadCloser {
	if body == http.NoBody {
		cancel(nil)
		return body
	}
	return &incoming{body: body, idle: idle, cancel: cancel, ctx: ctx}
}

// Read is for one goroutine at a time. Any error but io.EOF is an ErrBroken.
func (i *incoming) Read(p []byte) (int, error) {
	switch {
	case i.timer != nil:
		i.timer.Reset(i.idle)
	case i.idle > 0:
		i.timer = time.AfterFunc(i.idle, func() { i.cancel(errSilent) })
	}
	n, err := i.body.Read(p)
	if i.timer != nil {
		i.timer.Stop()
	}
	if err == nil {
		return n, nil
	}
	cause := context.Cause(i.ctx)
	i.cancel(nil)
	switch {
	case err == io.EOF:
		return n, io.EOF
	case cause != nil:
		err = cause
	}
	return n, fmt.Errorf("read its answer: %w: %w", ErrBroken, err)
}

// Close ends the exchange, also one whose request is still being sent.
func (i *incoming) Close() error {
	err := i.body.Close()
	i.cancel(nil)
	return err
}
