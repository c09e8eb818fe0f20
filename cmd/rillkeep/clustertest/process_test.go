package clustertest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is what a process printed so far.
type output struct {
	mu    sync.Mutex // guards below
	text  bytes.Buffer
	grown chan struct{} // closed when there is more
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) now() (text string, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.grown
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}

// process is one run of the program.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *output
	done     chan struct{} // closed when it has ended
}

// launch runs the program with settings NAME=value and arguments, as a user who has
// set up nothing else.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), out: newOutput(), err: newOutput(), done: make(chan struct{})}
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RILLKEEP_") })
	p.cmd.Env, p.cmd.Dir = append(own, env...), t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are for the test
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // should it be paused
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s\nprinted %.2000s\nand said %s", strings.Join(args, " "), p.out, last(p.err.String(), 6000))
		}
		if strings.Contains(p.err.String(), "DATA RACE") {
			t.Errorf("a race: %s", last(p.err.String(), 20_000))
		}
	})
	return p
}

// last is the end of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }

// wait waits until an output holds text.
func (p *process) wait(t testing.TB, o *output, text string) {
	t.Helper()
	limit := time.After(patience)
	for {
		got, grown := o.now()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-grown:
		case <-p.done:
			if !strings.Contains(o.String(), text) {
				t.Fatalf("ended with exit code %d and without %q", p.cmd.ProcessState.ExitCode(), text)
			}
			return
		case <-limit:
			t.Fatalf("no word of %q", text)
		}
	}
}

// url is where the node listens, which it prints first.
func (p *process) url(t testing.TB) string {
	t.Helper()
	p.wait(t, p.out, "\n")
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(p.out.String()), &said); err != nil {
		t.Fatal(err)
	}
	return said.URL
}

// ended waits for the end and returns the exit code.
func (p *process) ended(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
