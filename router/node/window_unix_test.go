//go:build unix

package node_test

import (
	"context"
	"syscall"
)

// receiveBuffer sets the size of a socket's receive buffer before it connects:
// later it has no effect on the window.
func receiveBuffer(bytes int) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
		})
		if err != nil {
			return err
		}
		return failed
	}
}
