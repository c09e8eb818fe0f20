//go:build unix

package router

import (
	"net"
	"syscall"
)

// direct writes to a connection's file descriptor without waiting for it to
// become writable, which a net.Conn can't.
type direct struct {
	raw syscall.RawConn // nil if the connection has no file descriptor

	// Of a try: a closure would be an allocation for each.
	write func(fd uintptr) bool
	b     []byte
	n     int
	err   error
}

func (d *direct) of(conn net.Conn) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := c.SyscallConn(); err == nil {
		d.raw, d.write = raw, d.once
	}
}

func (d *direct) can() bool { return d.raw != nil }

func (d *direct) try(b []byte) (n int, err error) {
	d.b, d.n = b, 0
	err = d.raw.Write(d.write)
	d.b = nil
	if err == nil {
		err = d.err
	}
	return d.n, err
}

// once is what a RawConn calls: true says that it is not to wait.
func (d *direct) once(fd uintptr) bool {
	for {
		d.n, d.err = syscall.Write(int(fd), d.b)
		switch d.err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			d.n, d.err = 0, nil
		}
		d.n = max(0, d.n)
		return true
	}
}
