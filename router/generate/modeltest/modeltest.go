// Package modeltest is a provider of language models for tests: it plays recorded
// responses with their timing, their errors and their cuts.
package modeltest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Provider is an HTTP server. Its n-th call gets the n-th answer, and what comes after
// the last one that one again.
type Provider struct {
	URL string

	mu      sync.Mutex // guards below
	answers []http.Handler
	calls   []Call
	left    chan time.Time
}

// Call is a request that came.
type Call struct {
	Path   string
	Header http.Header
	Body   string
}

// New starts a provider, which stops with the test.
func New(tb testing.TB, answers ...http.Handler) *Provider {
	p := &Provider{answers: answers, left: make(chan time.Time, 64)}
	s := httptest.NewServer(p)
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p.URL = s.URL
	return p
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has gone
	}
	p.mu.Lock()
	answer := p.answers[min(len(p.calls), len(p.answers)-1)]
	p.calls = append(p.calls, Call{req.URL.Path, req.Header.Clone(), string(body)})
	p.mu.Unlock()
	answer.ServeHTTP(w, req)
	if req.Context().Err() != nil {
		p.left <- time.Now()
	}
}

// Calls are those that came so far.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Left tells of each call whose client went away before its answer was over.
func (p *Provider) Left() <-chan time.Time { return p.left }

// Ending is how an answer ends.
type Ending int

// The endings.
const (
	End   Ending = iota // as it should
	Cut                 // the connection breaks
	Stall               // the connection stays, and nothing comes until the client leaves
)

// Answer is a response. The zero value is an empty one of status 200 that calls itself
// a stream of events.
type Answer struct {
	Status  int               // 0 means 200
	Header  map[string]string // beside Content-Type: text/event-stream
	Body    []byte
	Before  time.Duration   // silence before the head
	Cuts    []int           // where a write ends, ascending
	Pause   time.Duration   // between writes
	Wait    <-chan struct{} // for what lies behind the last cut, if set
	Ending  Ending
	Written func(n int) // told after each write, if set
}

// ServeHTTP implements http.Handler.
func (a Answer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	gone := req.Context().Done()
	if !rest(a.Before, gone) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	at := 0
	for i, cut := range append(append([]int(nil), a.Cuts...), len(a.Body)) {
		if i == len(a.Cuts) && a.Wait != nil {
			select {
			case <-a.Wait:
			case <-gone:
				return
			}
		}
		cut = min(cut, len(a.Body))
		if _, err := w.Write(a.Body[at:cut]); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		if a.Written != nil {
			a.Written(cut - at)
		}
		at = cut
		if at < len(a.Body) && !rest(a.Pause, gone) {
			return
		}
	}
	switch a.Ending {
	case Cut:
		panic(http.ErrAbortHandler)
	case Stall:
		<-gone
	}
}

// rest pauses, and reports whether the client is still there.
func rest(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	}
}

// Every returns the cuts of n bytes into pieces of so many.
func Every(size, n int) []int {
	var cuts []int
	for at := size; at < n; at += size {
		cuts = append(cuts, at)
	}
	return cuts
}
