package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// Exit codes, beside 0 for success.
const (
	exitFailure     = 1   // the command failed
	exitUsage       = 2   // the command line is off
	exitCancelled   = 3   // the stream ended cancelled
	exitError       = 4   // the stream ended with an error
	exitInterrupted = 5   // the stream ended interrupted
	exitNotFound    = 6   // no such stream
	exitDenied      = 7   // no valid token, or one that does not allow this
	exitSignal      = 130 // stopped by a signal
)

// exitStatus is an error that is only an exit code: what there is to say was
// said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exitCode says what went wrong, and with what code to exit. Who stopped the
// command need not be told that it was stopped.
func exitCode(ctx context.Context, err error, con *console) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitSignal
	}
	con.say("%s%s", plain(err), hint(err))
	switch {
	case errors.Is(err, plane.ErrNotFound):
		return exitNotFound
	case errors.Is(err, plane.ErrDenied), errors.Is(err, wire.ErrUnauthorized):
		return exitDenied
	default:
		return exitFailure
	}
}

// plain is what an error has to say to who knows what was tried.
func plain(err error) string {
	source, ours := errors.AsType[*client.SourceError](err)
	said, theirs := errors.AsType[*wire.Error](err)
	switch {
	case ours:
		return source.Error()
	case theirs:
		return said.Message
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed): // the last by our own side, which has seen one of the others
		return "the connection is lost"
	default:
		return err.Error()
	}
}

// hint says what may help.
func hint(err error) string {
	left, ok := errors.AsType[*leftError](err)
	switch {
	case ok && left.unreached:
		return fmt.Sprintf("\nIf its node is gone it will end interrupted; if another node has it, it stays open until somebody closes or cancels it."+
			"\nWhat is kept of it is printed by rillkeep show %s; push the whole again with another id.", word(left.id))
	case ok:
		return fmt.Sprintf("\nWhat is kept of it then is printed by rillkeep show %s; push the whole again with another id.", word(left.id))
	case errors.Is(err, client.ErrUnreached) && errors.Is(err, syscall.ECONNREFUSED):
		return "\nStart a node with rillkeep serve, or name another with --server."
	case errors.Is(err, syscall.EADDRINUSE):
		return "\nChoose another address there; port 0 takes a free one."
	case errors.Is(err, sqlite.ErrInUse):
		return "\nA node of an earlier release has this folder: stop that one, or choose another folder with --data."
	case errors.Is(err, store.ErrNameInUse):
		return "\nStop that one, name this one with --name, or choose another folder with --data or another --database."
	case errors.Is(err, wire.ErrUnauthorized):
		return "\nPut a token into RILLKEEP_TOKEN; rillkeep token mints one."
	case errors.Is(err, plane.ErrDenied):
		return "\nMint one whose --ops and --streams do: push and flush need write, tail and show read, cancel cancel, ls and cluster admin."
	default:
		return ""
	}
}

// ended says how a stream ended, if not well, and is the exit code for it.
func ended(con *console, status plane.Status, why string) error {
	var how string
	var code exitStatus
	switch status {
	case plane.StatusComplete:
		return nil
	case plane.StatusCancelled:
		how, code = "was cancelled", exitCancelled
	case plane.StatusError:
		how, code = "ended with an error", exitError
	default:
		how, code = "was interrupted", exitInterrupted
	}
	if why != "" {
		how += ": " + why
	}
	con.say("the stream %s", how)
	return code
}
