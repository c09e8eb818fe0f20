package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// process is the program, running by itself.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *output
	done     chan struct{} // closed when it has ended
}

// output is what a process printed so far.
type output struct {
	mu    sync.Mutex // guards below
	text  bytes.Buffer
	grown chan struct{} // closed when there is more
}

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

// binDir returns a folder to put into PATH: rillkeep in it is this program.
func binDir(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "rillkeep")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// environment is that of a user who has set up nothing.
func environment(bin string, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RILLKEEP_") })
	return append(append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")), more...)
}

// launch starts the program with the arguments, after settings of the form
// NAME=value.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	bin := binDir(t)
	settings := 0
	for settings < len(args) && strings.HasPrefix(args[settings], "RILLKEEP_") {
		settings++
	}
	return begin(t, exec.Command(filepath.Join(bin, "rillkeep"), args[settings:]...), environment(bin, args[:settings]...))
}

// shell runs a line as a user types it.
func shell(t *testing.T, line string) *process {
	t.Helper()
	return begin(t, exec.Command("/bin/sh", "-c", line), environment(binDir(t)))
}

func begin(t *testing.T, cmd *exec.Cmd, env []string) *process {
	t.Helper()
	p := &process{
		cmd: cmd, done: make(chan struct{}),
		out: &output{grown: make(chan struct{})}, err: &output{grown: make(chan struct{})},
	}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, t.TempDir(), p.out, p.err
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s\nprinted %.4000s\nand said %.8000s", strings.Join(cmd.Args, " "), p.out, p.err)
		}
	})
	return p
}

// printed waits until the output holds text.
func (p *process) printed(t *testing.T, text string) {
	t.Helper()
	p.wait(t, p.out, text)
}

// said waits until what is beside the output holds text.
func (p *process) said(t *testing.T, text string) {
	t.Helper()
	p.wait(t, p.err, text)
}

func (p *process) wait(t *testing.T, o *output, text string) {
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

// ended waits for the end and returns the exit code.
func (p *process) ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

var address = regexp.MustCompile(`Rillkeep serves on (http://\S+)\n`)

// serve starts a node, on a free port unless the arguments say otherwise, and
// returns its URL.
func serve(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	settings := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "RILLKEEP_") })
	p := launch(t, slices.Insert(args, settings, "serve")...)
	p.printed(t, "in a browser.")
	return p, address.FindStringSubmatch(p.out.String())[1]
}

// at runs a command for streams at a server, in this process.
func at(t *testing.T, url string, in io.Reader, args ...string) result {
	t.Helper()
	return command(t.Context(), in, slices.Insert(args, 1, "--server", url)...)
}

func TestPushThatIsInterruptedAsAProcessSealsWhatItRead(t *testing.T) {
	t.Parallel()
	_, url := serve(t)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // what these tests ignore, the program does too
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		id := s.String()
		push := launch(t, "RILLKEEP_SERVER="+url, "push", id)
		if _, err := io.WriteString(push.in, "read"); err != nil {
			t.Fatal(err)
		}
		waitText(t, url, id, "read")
		tail := launch(t, "RILLKEEP_SERVER="+url, "tail", id)
		tail.printed(t, "read")
		push.signal(t, s)
		if code := push.ended(t); code != exitInterrupted || push.err.String() != "rillkeep: the stream was interrupted\n" {
			t.Errorf("push after %s: exit %d, said %q", s, code, push.err)
		}
		if code := tail.ended(t); code != exitInterrupted || tail.out.String() != "read" {
			t.Errorf("its reader: exit %d, %q", code, tail.out)
		}
	}
}

// A provider may keep its connection open after the end of the response: then the
// input goes on, silent, and is not waited for.
func TestPushIsDoneWithTheResponseThoughItsInputGoesOn(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	for format, file := range map[string]string{"openai": "done.sse", "anthropic": "anthropic-text.sse"} {
		text := map[string]string{"openai": "Quick answer", "anthropic": "Hello!"}[format]
		push := launch(t, "RILLKEEP_SERVER="+s.URL(), "push", "--json", "--format", format, format)
		if _, err := io.WriteString(push.in, sample(t, file)); err != nil {
			t.Fatal(err)
		}
		if code := push.ended(t); code != 0 {
			t.Errorf("%s: exit %d", format, code)
		}
		if want := fmt.Sprintf(`{"status":"complete","seq":%d,"durableSeq":%[1]d}`+"\n", len(text)); push.out.String() != want {
			t.Errorf("%s: printed %s, want %s", format, push.out, want)
		}
		if snap := s.snapshot(t, format); snap.Status != plane.StatusComplete || snap.Text != text || snap.DurableSeq != snap.Seq {
			t.Errorf("%s: the row has %+v", format, snap)
		}
		s.command(t, "", "tail", format).want(t, 0, text, "")
	}
}

func TestTailThatIsInterruptedAsAProcessIsQuiet(t *testing.T) {
	t.Parallel()
	_, url := serve(t)
	post(t, url+"/v1/streams/m1", ``)
	post(t, url+"/v1/streams/m1/append", `{"text":"some text"}`)
	tail := launch(t, "tail", "m1", "--server", url)
	tail.printed(t, "some text")
	tail.signal(t, os.Interrupt)
	if code := tail.ended(t); code != exitSignal || tail.err.String() != "" || tail.out.String() != "some text" {
		t.Errorf("exit %d, printed %q, said %q", code, tail.out, tail.err)
	}
}
