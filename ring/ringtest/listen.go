package ringtest

import (
	"net"
	"net/netip"
	"sync"
)

// Listen opens a port for streams; 0 picks a free one.
func (h *Host) Listen(number uint16) (net.Listener, error) {
	p, number, err := h.bind(number)
	if err != nil {
		return nil, err
	}
	return &listener{host: h, port: p, addr: netip.AddrPortFrom(h.addr, number)}, nil
}

type listener struct {
	host  *Host
	port  *port
	addr  netip.AddrPort
	close sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.port.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.port.streams:
		return c, nil
	case <-l.port.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.close.Do(func() { l.host.unbind(l.addr.Port(), l.port) })
	return nil
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }
