package peer

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// longAgo as a deadline resets a stream at once.
var longAgo = time.Unix(1, 0)

// answer is a response writer that signs the header it sends, and bounds how
// long a write may take. Like any, it is for one goroutine at a time.
type answer struct {
	http.ResponseWriter
	key      *key // nil: not signed
	request  mac
	node     string
	clock    int64 // milliseconds, 0 means not to be told
	patience time.Duration
	wrote    bool // the header

	timer *time.Timer // of the write under way; nil before the first
	mu    sync.Mutex  // guards below
	done  bool        // the handler has returned
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) started() bool { return a.wrote }

// start sends the header, if that has not been done.
func (a *answer) start() {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
}

func (a *answer) WriteHeader(status int) {
	if a.wrote || status < 200 {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.wrote = true
	h := a.Header()
	why := h[headerRefused]
	canonical(h)
	remove(h, reserved...)
	if a.clock != 0 {
		h[headerClock] = []string{strconv.FormatInt(a.clock, 10)}
		if why != nil {
			h[headerRefused] = why
		}
	}
	h[headerNode] = []string{a.node}
	if a.key != nil {
		withAnswer(a.request, status, h, func(m message) {
			h[headerSignature] = []string{encodeMAC(a.key.sum(m))}
		})
	}
	a.ResponseWriter.WriteHeader(status)
}

// refuse answers a member why its request is not let through, and what the time
// is.
func (a *answer) refuse(why refusal, clock int64) {
	status := http.StatusUnauthorized
	if why == refusedLoop {
		status = http.StatusLoopDetected
	}
	a.clock = clock
	a.Header()[headerRefused] = []string{string(why)}
	a.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.start()
	a.watch()
	defer a.timer.Stop()
	return a.ResponseWriter.Write(p)
}

// Flush is for handlers that know no better; FlushError tells them of errors.
func (a *answer) Flush() { _ = a.FlushError() }

func (a *answer) FlushError() error {
	a.start()
	a.watch()
	defer a.timer.Stop()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// watch resets the stream unless the timer is stopped within the patience. The
// timer lives as long as the answer: two of its operations a write are cheaper
// than two deadlines, each of which goes to the connection's loop.
func (a *answer) watch() {
	if a.timer == nil {
		a.timer = time.AfterFunc(a.patience, a.reset)
	} else {
		a.timer.Reset(a.patience)
	}
}

func (a *answer) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(longAgo)
	}
}

// finish says that the handler has returned: the writer must not be touched any
// more.
func (a *answer) finish() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
}
