//go:build !unix

package dev

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

func alone(*exec.Cmd) {}

func terminate(_ *os.Process, lifeline io.Closer) error { return lifeline.Close() }

func freeze(*os.Process) error { return errors.ErrUnsupported }

func proceed(*os.Process) error { return errors.ErrUnsupported }
