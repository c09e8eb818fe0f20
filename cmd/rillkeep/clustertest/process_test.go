package clustertest

import (
	"encoding/json"
	"os/exec"
	"syscall"
	"testing"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
)

// process is one run of the program.
type process struct{ *proctest.Process }

// launch runs the program with settings NAME=value and arguments, as a user who has
// set up nothing else.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = proctest.Environment(env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are for the test
	p := proctest.Start(t, cmd)
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGCONT) }) // should it be paused
	return &process{p}
}

// url is where the node listens, which it prints first.
func (p *process) url(t testing.TB) string {
	t.Helper()
	p.Printed(t, "\n")
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(p.Out.String()), &said); err != nil {
		t.Fatal(err)
	}
	return said.URL
}
