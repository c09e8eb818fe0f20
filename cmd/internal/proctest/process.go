// Package proctest runs programs for tests, and waits for what they say.
package proctest

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience bounds each wait for something that happens by itself.
const patience = time.Minute

// Process is one run of a program. Its methods are safe for concurrent use, but for
// those of In.
type Process struct {
	Cmd      *exec.Cmd
	In       io.WriteCloser
	Out, Err *Output
	Done     chan struct{} // closed when it has ended
}

// Environment is that of a user who has set up nothing, and then the settings NAME=value.
func Environment(settings ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RILLKEEP_") })
	return append(own, settings...)
}

// Start starts cmd, in a folder of its own unless it names one. It is killed when the
// test ends, which fails if the race detector has said anything in it.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{Cmd: cmd, Out: NewOutput(), Err: NewOutput(), Done: make(chan struct{})}
	if cmd.Dir == "" {
		cmd.Dir = tb.TempDir()
	}
	cmd.Stdout, cmd.Stderr = p.Out, p.Err
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait() // the exit code tells
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.Done
		if tb.Failed() {
			tb.Logf("%s\nprinted %s\nand said %s", strings.Join(cmd.Args, " "), p.Out.Last(4000), p.Err.Last(8000))
		}
		if strings.Contains(p.Err.String(), "DATA RACE") {
			tb.Errorf("a race: %s", p.Err.Last(20_000))
		}
	})
	return p
}

// Printed waits until the output holds text.
func (p *Process) Printed(tb testing.TB, text string) {
	tb.Helper()
	p.wait(tb, p.Out, text)
}

// Said waits until what is beside the output holds text.
func (p *Process) Said(tb testing.TB, text string) {
	tb.Helper()
	p.wait(tb, p.Err, text)
}

func (p *Process) wait(tb testing.TB, o *Output, text string) {
	tb.Helper()
	limit := time.After(patience)
	for {
		got, grown := o.now()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-grown:
		case <-p.Done:
			if !strings.Contains(o.String(), text) {
				tb.Fatalf("ended with exit code %d and without %q", p.Cmd.ProcessState.ExitCode(), text)
			}
			return
		case <-limit:
			tb.Fatalf("no word of %q", text)
		}
	}
}

// Ended waits for the end and returns the exit code.
func (p *Process) Ended(tb testing.TB) int {
	tb.Helper()
	return p.EndedWithin(tb, patience)
}

// EndedWithin is Ended for what may take longer than a moment.
func (p *Process) EndedWithin(tb testing.TB, limit time.Duration) int {
	tb.Helper()
	select {
	case <-p.Done:
	case <-time.After(limit):
		tb.Fatal("does not end")
	}
	return p.Cmd.ProcessState.ExitCode()
}

// IsOver reports whether it has ended.
func (p *Process) IsOver() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (p *Process) Signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		tb.Fatal(err)
	}
}
