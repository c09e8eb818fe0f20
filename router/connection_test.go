package router

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// timed is a ResponseWriter with write deadlines.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.until = t
	return nil
}

// What a handler leaves behind is the server's: an HTTP/2 stream that has ended,
// a connection with another request.
func TestAResponseIsNotTouchedAfterItsEnd(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	r := newResponse(httptest.NewRequest(http.MethodGet, "/", nil), w, time.Minute, func() {})
	if err := r.send([][]byte{[]byte("text")}); err != nil || w.until.Before(time.Now()) {
		t.Errorf("a send until %v: %v", w.until, err)
	}
	r.cut()
	if w.until.After(time.Now()) {
		t.Error("a cut lets the send go on")
	}
	w.until = time.Time{}
	r.close()
	r.cut() // the node's stop, which is a second late
	if !w.until.IsZero() {
		t.Errorf("a cut after the end sets the deadline to %v", w.until)
	}
}
