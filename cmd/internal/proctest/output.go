package proctest

import (
	"bytes"
	"sync"
)

// Output is what a process printed so far. It is safe for concurrent use.
type Output struct {
	mu    sync.Mutex // guards below
	text  bytes.Buffer
	grown chan struct{} // closed when there is more
}

// NewOutput returns one that is empty.
func NewOutput() *Output { return &Output{grown: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.text.Write(p)
}

func (o *Output) now() (text string, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.grown
}

// String is all of it.
func (o *Output) String() string {
	text, _ := o.now()
	return text
}

// Last is its end, of n bytes at the most.
func (o *Output) Last(n int) string {
	text := o.String()
	return text[max(0, len(text)-n):]
}
