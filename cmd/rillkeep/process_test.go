package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

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

// environment is that of a user who has set up nothing but where the program is.
func environment(bin string, more ...string) []string {
	return proctest.Environment(append([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, more...)...)
}

// launch starts the program with the arguments, after settings of the form
// NAME=value.
func launch(t *testing.T, args ...string) *proctest.Process {
	t.Helper()
	bin := binDir(t)
	settings := 0
	for settings < len(args) && strings.HasPrefix(args[settings], "RILLKEEP_") {
		settings++
	}
	return begin(t, exec.Command(filepath.Join(bin, "rillkeep"), args[settings:]...), environment(bin, args[:settings]...))
}

// shell runs a line as a user types it.
func shell(t *testing.T, line string) *proctest.Process {
	t.Helper()
	return begin(t, exec.Command("/bin/sh", "-c", line), environment(binDir(t)))
}

func begin(t *testing.T, cmd *exec.Cmd, env []string) *proctest.Process {
	t.Helper()
	cmd.Env = env
	return proctest.Start(t, cmd)
}

var address = regexp.MustCompile(`Rillkeep serves on (http://\S+)\n`)

// serve starts a node, on a free port unless the arguments say otherwise, and
// returns its URL.
func serve(t *testing.T, args ...string) (*proctest.Process, string) {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	settings := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "RILLKEEP_") })
	p := launch(t, slices.Insert(args, settings, "serve")...)
	p.Printed(t, "in a browser.")
	return p, address.FindStringSubmatch(p.Out.String())[1]
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
		if _, err := io.WriteString(push.In, "read"); err != nil {
			t.Fatal(err)
		}
		waitText(t, url, id, "read")
		tail := launch(t, "RILLKEEP_SERVER="+url, "tail", id)
		tail.Printed(t, "read")
		push.Signal(t, s)
		if code := push.Ended(t); code != exitInterrupted || push.Err.String() != "rillkeep: the stream was interrupted\n" {
			t.Errorf("push after %s: exit %d, said %q", s, code, push.Err)
		}
		if code := tail.Ended(t); code != exitInterrupted || tail.Out.String() != "read" {
			t.Errorf("its reader: exit %d, %q", code, tail.Out)
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
		if _, err := io.WriteString(push.In, sample(t, file)); err != nil {
			t.Fatal(err)
		}
		if code := push.Ended(t); code != 0 {
			t.Errorf("%s: exit %d", format, code)
		}
		if want := fmt.Sprintf(`{"status":"complete","seq":%d,"durableSeq":%[1]d}`+"\n", len(text)); push.Out.String() != want {
			t.Errorf("%s: printed %s, want %s", format, push.Out, want)
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
	tail.Printed(t, "some text")
	tail.Signal(t, os.Interrupt)
	if code := tail.Ended(t); code != exitSignal || tail.Err.String() != "" || tail.Out.String() != "some text" {
		t.Errorf("exit %d, printed %q, said %q", code, tail.Out, tail.Err)
	}
}
