package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Ring is this node's membership of a cluster. Its methods are safe for
// concurrent use.
type Ring struct {
	cfg     Config
	addr    netip.AddrPort // advertised
	list    *memberlist.Memberlist
	roster  *roster
	refused *refusals
	journal *journal
	said    *delegate

	view       atomic.Pointer[View]
	announcing chan struct{} // of capacity 1: held by who tells the others of a new state
	leaving    chan struct{} // of capacity 1: held by who talks to memberlist of leaving, or shuts it down

	life  context.Context // ends when the ring is closed
	end   context.CancelFunc
	mu    sync.Mutex     // of meta, and the end: no task starts after it
	meta  metadata       // what this node says of itself
	tasks sync.WaitGroup // what ends with the ring
	logs  sync.WaitGroup // what ends after that

	views, rejoins, failures atomic.Uint64
	unreached                atomic.Int64
}

// Open starts a node's membership: it listens, asks the seeds once, and goes on
// asking them. The node is in state joining until SetState. Without a seed that
// answers it is a cluster of one for the time being; if none took it in and one
// refused it, Open fails with [ErrSecret], [ErrCluster] or [ErrSettings], and with
// [ErrNameTaken] if another living process has the node's name. It takes as long
// as the first seed takes to answer, and twice StreamTimeout if none does; when
// ctx ends before, Open fails as soon as what is on its way has ended. ctx ends
// nothing once Open has returned.
func Open(ctx context.Context, cfg Config) (*Ring, error) {
	r, err := open(ctx, cfg.withDefaults())
	if err != nil {
		if cfg.Transport != nil {
			_ = cfg.Transport.Shutdown()
		}
		return nil, fmt.Errorf("open ring: %w", err)
	}
	if err := r.enter(ctx); err != nil {
		r.withdraw(err)
		return nil, fmt.Errorf("open ring: %w", err)
	}
	r.look() // the first view has all that the seeds knew: nobody waits for changes to settle
	r.start(r.watch)
	r.start(r.rejoin)
	return r, nil
}

// open makes a ring that knows nobody yet.
func open(ctx context.Context, cfg Config) (*Ring, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	name := cfg.Node + "/" + cfg.Incarnation
	if err := cfg.Settings.agree([]string{name, "node-1", "node-11"}); err != nil {
		return nil, err
	}
	keys, err := newKeyring(cfg.Secrets, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	r := &Ring{
		cfg:        cfg,
		roster:     newRoster(Member{Name: name, Node: cfg.Node, Incarnation: cfg.Incarnation}),
		journal:    newJournal(cfg.Log),
		announcing: make(chan struct{}, 1), leaving: make(chan struct{}, 1),
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.refused = newRefusals(r.journal)
	r.said = &delegate{settings: cfg.Settings, roster: r.roster, refused: r.refused}
	table, err := NewTable(nil, cfg.Settings)
	if err != nil {
		return nil, err
	}
	r.view.Store(&View{Table: table, self: name, changed: make(chan struct{})})
	if err := r.listen(ctx, keys); err != nil {
		return nil, err
	}
	return r, nil
}

// listen starts memberlist, and what works beside it.
func (r *Ring) listen(ctx context.Context, keys *memberlist.Keyring) error {
	transport, err := r.transport(ctx)
	if err != nil {
		return err
	}
	meta, err := r.cfg.metadata(r.addr.Addr())
	if err == nil {
		data := meta.encode()
		r.meta = meta
		r.said.meta.Store(&data)
		gossip := r.cfg.gossip(transport, keys, r.said)
		gossip.AdvertiseAddr, gossip.AdvertisePort = r.addr.Addr().String(), int(r.addr.Port())
		gossip.BindPort = int(r.addr.Port())
		r.list, err = memberlist.Create(gossip)
	}
	if err != nil {
		if r.cfg.Transport == nil {
			_ = transport.Shutdown()
		}
		return err
	}
	r.logs.Go(func() { r.journal.run(r.life.Done()) })
	return nil
}

// transport opens the sockets, unless the configuration has something else, and
// finds out which address others are told.
func (r *Ring) transport(ctx context.Context) (memberlist.Transport, error) {
	if t := r.cfg.Transport; t != nil {
		ip, port, err := t.FinalAdvertiseAddr("", 0)
		if err != nil {
			return nil, err
		}
		addr, _ := netip.AddrFromSlice(ip)
		r.addr, err = advertised(ctx, r.cfg.Advertise, netip.AddrPortFrom(addr.Unmap(), uint16(port)), primaryIP)
		return t, err
	}
	bind, err := bindAddr(ctx, r.cfg.Bind)
	if err != nil {
		return nil, err
	}
	// An address that nobody reaches is refused before anything listens.
	if _, err := advertised(ctx, r.cfg.Advertise, bind, primaryIP); err != nil {
		return nil, err
	}
	t, err := listenAt(bind, r.said)
	if err != nil {
		return nil, err
	}
	bound := netip.AddrPortFrom(bind.Addr(), uint16(t.GetAutoBindPort()))
	if r.addr, err = advertised(ctx, r.cfg.Advertise, bound, primaryIP); err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	return t, nil
}

// listenAt opens sockets. A port that the kernel picks for TCP may be taken for
// UDP: then another try picks another.
func listenAt(bind netip.AddrPort, d *delegate) (t *memberlist.NetTransport, err error) {
	tries := 1
	if bind.Port() == 0 {
		tries = 10
	}
	for range tries {
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: newLogger(d),
		})
		if err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("listen for gossip: %w", err)
}

// start runs something until the ring is closed. It answers false if it is.
func (r *Ring) start(run func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return false
	}
	r.tasks.Go(run)
	return true
}

// Addr answers the address that others reach this node's gossip at, IP:port.
func (r *Ring) Addr() string { return r.addr.String() }

// View answers the cluster as this node knows it now. It takes nanoseconds.
func (r *Ring) View() *View { return r.view.Load() }

// Changed is closed at the next change: take it before the View that it is about.
func (r *Ring) Changed() <-chan struct{} { return r.View().Changed() }

// Close ends the membership without a word, as a crash does; after Leave it does
// nothing. It waits until everything has ended, which takes as long as attempts to
// join that are on their way: about twice StreamTimeout at most.
func (r *Ring) Close() error {
	r.mu.Lock()
	first := r.life.Err() == nil
	r.end()
	r.mu.Unlock()
	var err error
	if first {
		r.leaving <- struct{}{} // waits for a Leave that is talking to memberlist
		err = r.list.Shutdown()
		<-r.leaving
	}
	r.tasks.Wait()
	r.logs.Wait()
	return err
}

// withdraw closes a ring that was refused. Others need not find out by probes that
// it is gone; but to leave under a name that another process has would take that
// one out.
func (r *Ring) withdraw(why error) {
	if _, cloned := r.roster.others(); cloned == "" && errors.Is(why, ErrNameTaken) {
		_ = r.list.Leave(time.Second)
	}
	_ = r.Close()
}

// canonical answers IP:port in the one form that addresses are compared in.
func canonical(addr string) (string, bool) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || ap.Port() == 0 {
		return "", false
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String(), true
}

// udp is an address that memberlist pings.
func udp(addr string) net.Addr {
	ap, _ := netip.ParseAddrPort(addr)
	return net.UDPAddrFromAddrPort(ap)
}
