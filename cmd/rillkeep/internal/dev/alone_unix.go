//go:build unix && !linux

package dev

import (
	"os/exec"
	"syscall"
)

// alone keeps a terminal's signals from a process: they are for who started it.
// Should that one die, the system lets a paused process go on, since its group has
// nobody left.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
