package ringtest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of one direction may be on their way.
const window = 256 << 10

// pipe is one direction of a stream.
type pipe struct {
	from, to *Host

	mu       sync.Mutex
	segments []segment
	size     int
	end      error // what the reader gets after the segments; io.EOF or a reset
	endAt    time.Time
	gone     bool          // the reader closed
	closed   bool          // the writer closed
	changed  chan struct{} // closed, and made anew, at each change
}

// segment is what one write put on its way, and when it arrives.
type segment struct {
	data []byte
	at   time.Time
	held bool // written by a host that was frozen: it leaves when that is thawed
}

func newPipe(from, to *Host) *pipe {
	return &pipe{from: from, to: to, changed: make(chan struct{})}
}

func (p *pipe) latency() time.Duration { return p.from.network.options.Latency }

// signal wakes whoever waits. Callers hold mu.
func (p *pipe) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// way says whether bytes arrive and are read, and when to ask again.
func (p *pipe) way() (open bool, changed <-chan struct{}) {
	n := p.from.network
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open(p.from, p.to) && p.to.state != frozen, n.changed
}

// writable says whether the writer's process runs, and whether it would be told
// of a reader that closed.
func (p *pipe) writable() (runs, told bool, changed <-chan struct{}) {
	n := p.from.network
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.from.state != frozen, n.open(p.to, p.from), n.changed
}

func (p *pipe) read(b []byte, d *deadline) (int, error) {
	for {
		if d.over() {
			return 0, os.ErrDeadlineExceeded
		}
		open, moved := p.way()
		runs, _, _ := p.writable()
		n, at, changed, err := p.take(b, open, runs)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if err := await(at, changed, moved, d); err != nil {
			return 0, err
		}
	}
}

// take reads what has arrived. Without anything, at is when the next arrives, if
// something is on its way.
func (p *pipe) take(b []byte, open, runs bool) (n int, at time.Time, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return 0, at, nil, net.ErrClosed
	}
	now := time.Now()
	if len(p.segments) > 0 && p.segments[0].held && !runs {
		open = false
	}
	for open && n < len(b) && len(p.segments) > 0 && !p.segments[0].at.After(now) && (runs || !p.segments[0].held) {
		m := copy(b[n:], p.segments[0].data)
		n += m
		p.size -= m
		if p.segments[0].data = p.segments[0].data[m:]; len(p.segments[0].data) == 0 {
			p.segments = p.segments[1:]
		}
	}
	switch {
	case n > 0:
		p.signal()
	case !open:
	case len(p.segments) > 0:
		at = p.segments[0].at
	case p.end != nil && !p.endAt.After(now):
		return 0, at, nil, p.end
	case p.end != nil:
		at = p.endAt
	}
	return n, at, p.changed, nil
}

func (p *pipe) write(b []byte, d *deadline) (written int, err error) {
	for {
		if d.over() {
			return written, os.ErrDeadlineExceeded
		}
		runs, told, moved := p.writable()
		n, changed, err := p.put(b[written:], runs, told)
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
		if err := await(time.Time{}, changed, moved, d); err != nil {
			return written, err
		}
	}
}

// put sends as much as the window has room for.
func (p *pipe) put(b []byte, runs, told bool) (n int, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, nil, net.ErrClosed
	case p.gone && told:
		return 0, nil, syscall.EPIPE
	case !runs:
		// A frozen writer does not wait here: it may hold a lock that others of its
		// process want, and in a bubble time stands still for those.
		p.segments = append(p.segments, segment{data: append([]byte(nil), b...), at: time.Now(), held: true})
		p.size += len(b)
		p.signal()
		return len(b), p.changed, nil
	}
	if n = min(len(b), window-p.size); n > 0 {
		p.segments = append(p.segments, segment{data: append([]byte(nil), b[:n]...), at: time.Now().Add(p.latency())})
		p.size += n
		p.signal()
	}
	return n, p.changed, nil
}

// finish ends the pipe from the writer's side: by a reset, what was written and
// not read is lost.
func (p *pipe) finish(reset error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.end, p.endAt = io.EOF, time.Now().Add(p.latency())
	if reset != nil {
		p.end, p.segments, p.size = reset, nil, 0
	}
	p.signal()
}

// abandon ends the pipe from the reader's side.
func (p *pipe) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.segments, p.size = nil, 0
	p.signal()
}

// await returns once something may have changed, or the deadline passes.
func await(at time.Time, changed, moved <-chan struct{}, d *deadline) error {
	var arrives <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		arrives = timer.C
	}
	select {
	case <-arrives:
	case <-changed:
	case <-moved:
	case <-d.passed():
		return os.ErrDeadlineExceeded
	}
	return nil
}
