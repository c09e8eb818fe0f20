package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"time"
)

// State is what a node is doing.
type State string

// The states of a node.
const (
	Starting State = "starting" // its process runs, and has not said where it listens
	Up       State = "up"
	Draining State = "draining" // it was asked to end
	Paused   State = "paused"   // its process is stopped, as on a machine that hangs
	Down     State = "down"     // it has no process
)

// Node is a node as it is at some moment.
type Node struct {
	Name  string `json:"name"`
	URL   string `json:"url,omitempty"` // where it is, or was
	PID   int    `json:"pid,omitempty"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // how it ended
}

// ErrState says that a node is in no state for what is asked of it.
var ErrState = errors.New("node can't do that now")

// process is a node, of which there is a process or not. It is never started
// again unasked: one that crashed is to be seen.
type process struct {
	name    string
	command func(name string) *exec.Cmd
	log     io.Writer
	running *sync.WaitGroup // whoever waits for a process

	mu       sync.Mutex // guards below
	state    State
	cmd      *exec.Cmd // the last
	url      *url.URL
	lifeline io.Closer
	why      string
	err      error // how it came to its end at the end of all, if not well
	again    bool  // to be started when it has ended
	closed   bool  // never to be started again
	changed  chan struct{}

	reach context.Context // done when nobody is to be led here any more
	cut   context.CancelFunc
}

func newProcess(name string, cfg Config, running *sync.WaitGroup) *process {
	return &process{
		name: name, command: cfg.Command, log: cfg.Log, running: running,
		state: Down, changed: make(chan struct{}),
	}
}

func (p *process) now() Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := Node{Name: p.name, State: p.state, Why: p.why}
	if p.url != nil {
		n.URL = p.url.String()
	}
	if p.state != Down {
		n.PID = p.cmd.Process.Pid
	}
	return n
}

// settled returns the node when it is no longer starting.
func (p *process) settled(ctx context.Context) (Node, error) {
	for {
		p.mu.Lock()
		state, changed := p.state, p.changed
		p.mu.Unlock()
		if state != Starting {
			return p.now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Node{}, ctx.Err()
		}
	}
}

// place returns where the node is, if it serves, and a context that is done when
// it is left.
func (p *process) place() (at *url.URL, reach context.Context, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url, p.reach, p.state == Up
}

// enter changes the state. Who is on the way to the node is cut off when it can't
// answer; one that drains takes leave of them by itself.
func (p *process) enter(s State) {
	p.state = s
	switch {
	case s == Paused || s == Down:
		p.cut()
	case s == Up:
		p.reach, p.cut = context.WithCancel(context.Background())
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// launch starts a process. The lock is held.
func (p *process) launch() error {
	cmd := p.command(p.name)
	said := prefixed(p.log, p.name)
	cmd.Stdout = &lines{each: func(line []byte) {
		if !p.hear(cmd, line) {
			said(line)
		}
	}}
	cmd.Stderr = &lines{each: said}
	cmd.WaitDelay = time.Second // for what it may have left behind
	alone(cmd)
	p.cut = func() {}
	p.why, p.again, p.url = "", false, nil
	lifeline, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.why = err.Error()
		p.enter(Down)
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.lifeline = cmd, lifeline
	p.enter(Starting)
	p.running.Go(func() { p.ended(cmd.Wait()) })
	return nil
}

// hear takes what a process prints, and reports whether that was where it is.
func (p *process) hear(cmd *exec.Cmd, line []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != cmd || p.url != nil {
		return false
	}
	var said announcement
	if json.Unmarshal(line, &said) != nil {
		return false
	}
	at, err := url.Parse(said.URL)
	if err != nil || at.Host == "" {
		return false
	}
	p.url = at
	if p.state == Starting {
		p.enter(Up)
	}
	return true
}

func (p *process) ended(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = p.cmd.ProcessState.String()
	early := p.url == nil // it may not have been ready for a signal
	if p.closed && !early {
		p.err = errors.Join(p.err, err)
	}
	again := p.again && !p.closed
	p.enter(Down)
	if again {
		_ = p.launch() // if it fails, the state says why
	}
}

// failure is how the node came to its end, if not as it was asked to.
func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.name, p.err)
}

// refuse says that the state is wrong. The lock is held.
func (p *process) refuse() error {
	if p.state == Down {
		return fmt.Errorf("%w: %s is down; restart starts it", ErrState, p.name)
	}
	return fmt.Errorf("%w: %s is %s", ErrState, p.name, p.state)
}

// kill ends the process as a crash does, and answers which one that is.
func (p *process) kill() (victim *exec.Cmd, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == Down {
		return nil, p.refuse()
	}
	return p.cmd, gone(p.cmd.Process.Kill())
}

// killTime is how long a process may take to end that was killed.
const killTime = 5 * time.Second

// killed is kill, and waits for the end: who asked is told what has become of it.
func (p *process) killed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	victim, err := p.kill()
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		over, changed := p.state == Down || p.cmd != victim, p.changed
		p.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s was killed, and has not ended yet", ErrState, p.name)
		}
	}
}

// stop asks the process to end.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == Down || p.state == Draining {
		return p.refuse()
	}
	return p.drain()
}

// drain is stop with the lock held.
func (p *process) drain() error {
	paused := p.state == Paused
	p.enter(Draining)
	err := terminate(p.cmd.Process, p.lifeline)
	if paused {
		err = errors.Join(err, proceed(p.cmd.Process))
	}
	return gone(err)
}

// restart starts a process, after the one that there is has ended as asked.
func (p *process) restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fmt.Errorf("%w: all end", ErrState)
	case p.state == Down:
		return p.launch()
	}
	p.again = true
	if p.state == Draining {
		return nil
	}
	return p.drain()
}

func (p *process) pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != Up {
		return p.refuse()
	}
	if err := freeze(p.cmd.Process); err != nil {
		return gone(err)
	}
	p.enter(Paused)
	return nil
}

func (p *process) resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != Paused {
		return p.refuse()
	}
	p.enter(Up)
	return gone(proceed(p.cmd.Process))
}

// shut ends the node for good.
func (p *process) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.state != Down && p.state != Draining {
		p.err = p.drain()
	}
}

// gone leaves out that a process ended before its signal came.
func gone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
