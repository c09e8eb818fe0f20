package node

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

// expectAnswers ends a connection once its peer has confirmed nothing that was sent to
// it for a time. By itself the kernel takes a quarter of an hour to give up a machine
// that has lost its power.
func expectAnswers(c *net.TCPConn, within time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { // what refuses this is as it was
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(within.Milliseconds()))
	})
}
