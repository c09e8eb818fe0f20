package ringtest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Transport carries gossip on a port of a host. It is a [memberlist.Transport].
type Transport struct {
	host    *Host
	port    *port
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	close   sync.Once
	done    sync.WaitGroup
}

var _ memberlist.Transport = (*Transport)(nil)

// packet is a datagram on its way.
type packet struct {
	data []byte
	from netip.AddrPort
}

// Transport opens a port for gossip.
func (h *Host) Transport(number uint16) (*Transport, error) {
	p, number, err := h.bind(number)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		host: h, port: p, addr: netip.AddrPortFrom(h.addr, number),
		packets: make(chan *memberlist.Packet),
	}
	t.done.Go(t.receive)
	return t, nil
}

// receive hands packets over as they are taken.
func (t *Transport) receive() {
	for {
		select {
		case p := <-t.port.packets:
			out := &memberlist.Packet{Buf: p.data, From: net.UDPAddrFromAddrPort(p.from), Timestamp: time.Now()}
			select {
			case t.packets <- out:
			case <-t.port.done:
				return
			}
		case <-t.port.done:
			return
		}
	}
}

// Addr answers the address, IP:port.
func (t *Transport) Addr() string { return t.addr.String() }

// FinalAdvertiseAddr answers the transport's own address, whatever is asked for.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

// WriteTo sends a packet. It never waits: a packet that can't arrive is dropped.
func (t *Transport) WriteTo(data []byte, address string) (time.Time, error) {
	now := time.Now()
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return now, err
	}
	delay, lost := t.host.network.packetDelay()
	if lost || !t.host.sends() {
		return now, nil
	}
	p := packet{data: append([]byte(nil), data...), from: t.addr}
	time.AfterFunc(delay, func() { t.host.deliver(to, p) })
	return now, nil
}

// sends says whether what the process sends leaves the host.
func (h *Host) sends() bool {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.state == running
}

// deliver brings a packet that h sent to where it was sent.
func (h *Host) deliver(to netip.AddrPort, p packet) {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	peer := n.hosts[to.Addr()]
	if peer == nil || !n.open(h, peer) {
		return
	}
	port := peer.ports[to.Port()]
	if port == nil || peer.state == killed {
		return
	}
	put := func() {
		select {
		case port.packets <- p:
		default:
		}
	}
	if peer.state != frozen {
		put()
	} else if len(peer.held) < heldPackets {
		peer.held = append(peer.held, put)
	}
}

// PacketCh is where packets arrive.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout opens a stream.
func (t *Transport) DialTimeout(address string, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return t.host.Dial(ctx, "tcp", address)
}

// StreamCh is where streams arrive.
func (t *Transport) StreamCh() <-chan net.Conn { return t.port.streams }

// Shutdown closes the port.
func (t *Transport) Shutdown() error {
	t.close.Do(func() { t.host.unbind(t.addr.Port(), t.port) })
	t.done.Wait()
	return nil
}
