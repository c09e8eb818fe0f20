//go:build unix

package dev

import (
	"io"
	"os"
	"syscall"
)

func terminate(p *os.Process, _ io.Closer) error { return p.Signal(syscall.SIGTERM) }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
