package dev

import (
	"os/exec"
	"syscall"
)

// alone keeps a terminal's signals from a process: they are for who started it.
// Should that one die, a paused process goes on, and finds its lifeline at an end.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
}
