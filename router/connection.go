package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/router/sse"
)

// connection is where a reader's bytes go. send puts buffers on their way, or
// fails with os.ErrDeadlineExceeded if the reader takes nothing for its limit;
// the buffers are the caller's again, unchanged, when it returns. cut, which may
// come at any time, ends a send in progress, and the use of the connection; after
// a close it does nothing. close ends the connection and all that belongs to it. A
// connection is made with a function to call when the client has left.
type connection interface {
	send(buffers [][]byte) error
	cut()
	close()
}

// maxExtensions bounds how often a write that makes some progress is given its
// limit anew: one that is not through by then never will be.
const maxExtensions = 3

// deadline is a write deadline that is set anew now and then, not at each
// write: a write always has at least the limit, and at most an eighth more.
type deadline struct {
	limit   time.Duration
	renewAt time.Time
}

// off takes the deadline away until the next renew.
func (d *deadline) off(set func(time.Time) error) error {
	if d.renewAt.IsZero() {
		return nil
	}
	d.renewAt = time.Time{}
	return set(time.Time{})
}

func (d *deadline) renew(set func(time.Time) error) error {
	now := time.Now()
	if now.Before(d.renewAt) {
		return nil
	}
	slack := d.limit / 8
	d.renewAt = now.Add(slack)
	return set(now.Add(d.limit + slack))
}

// taken is a connection that was taken over from the HTTP server. The response
// has no length and no chunks: it ends with the connection.
type taken struct {
	conn   net.Conn
	wait   deadline
	done   chan struct{} // closed when nobody reads from it any longer
	held   net.Buffers   // what send writes; kept for its memory
	direct               // for writes that don't wait
}

// takeOver takes a request's connection and sends the head of the response, or
// answers http.ErrNotSupported.
func takeOver(req *http.Request, w http.ResponseWriter, stall time.Duration, gone func()) (*taken, error) {
	if req.ProtoMajor != 1 || req.ProtoMinor == 0 {
		return nil, http.ErrNotSupported
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	t := &taken{conn: conn, wait: deadline{limit: stall}, done: make(chan struct{})}
	t.direct.of(conn)
	go t.watch(gone)
	if err := conn.SetDeadline(time.Time{}); err != nil { // the server's own
		t.close()
		return nil, fmt.Errorf("clear deadline: %w", err)
	}
	if err := t.send([][]byte{head(w.Header())}); err != nil {
		t.close()
		return nil, fmt.Errorf("send head: %w", err)
	}
	return t, nil
}

// head is the head of an event stream's response, with what headers the request
// was given on its way here.
func head(h http.Header) []byte {
	sse.SetHeaders(h)
	h.Set("Connection", "close")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(&b) // a Buffer takes all
	b.WriteString("\r\n")
	return b.Bytes()
}

// watch waits for the client to leave, or to send something: after its request
// there is nothing to say, and reading on would be work that it can ask for.
func (t *taken) watch(gone func()) {
	defer close(t.done)
	var b [1]byte
	_, _ = t.conn.Read(b[:])
	gone()
}

func (t *taken) send(buffers [][]byte) error {
	t.held = append(t.held[:0], buffers...)
	defer clear(t.held)
	rest := t.held
	for extended := 0; ; extended++ {
		if err := t.wait.renew(t.conn.SetWriteDeadline); err != nil {
			return err
		}
		var n int64
		var err error
		if len(rest) == 1 { // the usual case, and cheaper so
			var m int
			m, err = t.conn.Write(rest[0])
			n, rest[0] = int64(m), rest[0][m:]
		} else {
			n, err = rest.WriteTo(t.conn)
		}
		if n > 0 && extended < maxExtensions && errors.Is(err, os.ErrDeadlineExceeded) {
			t.wait.renewAt = time.Time{} // slow, but it takes some
			continue
		}
		return err
	}
}

// prompt returns t if it can be written to without waiting, else nil.
func (t *taken) prompt() prompt {
	if !t.direct.can() {
		return nil
	}
	return t
}

func (t *taken) try(b []byte) (n int, err error) {
	if err := t.wait.off(t.conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return t.direct.try(b)
}

func (t *taken) cut() { _ = t.conn.Close() }

func (t *taken) close() {
	_ = t.conn.Close()
	<-t.done
}

// response is a connection that stays the HTTP server's: that of HTTP/1.0, and
// any that it does not give away.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wait    deadline
	forget  func() bool // ends the watch on the client

	mu   sync.Mutex // guards below
	over bool       // the handler returns: w is the server's again
}

func newResponse(req *http.Request, w http.ResponseWriter, stall time.Duration, gone func()) *response {
	sse.SetHeaders(w.Header())
	w.WriteHeader(http.StatusOK)
	return &response{
		w: w, control: http.NewResponseController(w), wait: deadline{limit: stall},
		forget: context.AfterFunc(req.Context(), gone),
	}
}

func (r *response) send(buffers [][]byte) error {
	err := r.wait.renew(r.control.SetWriteDeadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // a recorder has no deadlines
		return err
	}
	for _, b := range buffers {
		if _, err := r.w.Write(b); err != nil {
			return err
		}
	}
	return r.control.Flush()
}

func (r *response) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		_ = r.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (r *response) close() {
	r.forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}
