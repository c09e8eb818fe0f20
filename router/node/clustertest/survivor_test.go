package clustertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

// survivor is a producer as an application has it: a client.Producer that knows all
// nodes.
type survivor struct {
	w      *world
	id     string
	name   string // of the producer
	script *script
	client *client.Client
	pause  time.Duration // between two deltas
	hold   chan struct{} // unless nil, it closes its stream only when this is closed
	stop   context.CancelFunc

	ended  chan struct{} // closed when it has done what it can
	sealed wire.Sealed
	err    error // what ended it before

	// Guarded by w.mu.
	producer *client.Producer
	acked    wire.Ack
	lost     []string // why connections were lost
}

// survive starts a producer that speaks to the member at first, and then to the next.
func (w *world) survive(id, name string, at, deltas int, pause time.Duration) *survivor {
	s := newScript(w.rng, deltas)
	w.judge.expect(id, s)
	return w.survivor(id, name, at, s, pause)
}

// survivor is survive for a stream that is there.
func (w *world) survivor(id, name string, at int, s *script, pause time.Duration) *survivor {
	p := &survivor{
		w: w, id: id, name: name, script: s, pause: pause, client: w.client(at, w.h2 || w.rng.IntN(2) == 0), ended: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(w.ctx)
	p.stop = stop
	w.survivors = append(w.survivors, p)
	w.running.Go(func() {
		defer close(p.ended)
		defer stop()
		p.sealed, p.err = p.run(ctx)
	})
	return p
}

// client speaks to all members, and to the one at first.
func (w *world) client(at int, h2 bool) *client.Client {
	from := w.makers
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		var member int
		if _, err := fmt.Sscanf(addr, "localhost:%d", &member); err != nil {
			return nil, err
		}
		conn, err := from.Dial(ctx, network, fmt.Sprintf("10.1.0.%d:%d", member, httpPort))
		return watched(conn, func(b []byte) { w.sends(b, "is sent", nil) }), err
	}}
	if h2 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	w.transports = append(w.transports, transport)
	var servers []string
	for i := range w.members {
		servers = append(servers, fmt.Sprintf("http://localhost:%d", 1+(at+i)%len(w.members)))
	}
	c, err := client.New(client.Config{
		Server: servers[0], Others: servers[1:], HTTP: &http.Client{Transport: transport}, Timeout: callTime, Silence: time.Second + 3*w.ping,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// length is how long it takes to say it all.
func (p *survivor) length() time.Duration {
	return time.Duration(len(p.script.deltas)) * p.pause * 11 / 10
}

func (p *survivor) run(ctx context.Context) (wire.Sealed, error) {
	producer, err := p.client.Produce(ctx, p.id, client.Producing{
		Producer: p.name, Resume: true, Progress: p.progress,
		Lost: func(why error) {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			p.lost = append(p.lost, why.Error())
		},
	})
	if err != nil {
		return wire.Sealed{}, err
	}
	p.w.mu.Lock()
	p.producer = producer
	p.w.mu.Unlock()
	for _, delta := range p.script.deltas {
		sleep(ctx, p.pause)
		if err := producer.Push(ctx, delta); err != nil {
			return wire.Sealed{}, err
		}
	}
	if p.hold != nil {
		select {
		case <-p.hold:
		case <-producer.Done():
			return wire.Sealed{}, producer.Err()
		}
	}
	return producer.Close(ctx)
}

// progress is the check of H: whatever an acknowledgement says is durable the row has,
// and has of this producer.
func (p *survivor) progress(ack wire.Ack) {
	h := p.w.judge.of(p.id)
	if ack.DurableSeq > h.row.Seq {
		p.w.t.Errorf("H: %s: %s is told that %d units are durable of %d", p.id, p.name, ack.DurableSeq, h.row.Seq)
	} else if own := p.text(h); own.text(0, ack.DurableSeq) != h.last().text(0, ack.DurableSeq) {
		p.w.t.Errorf("H: %s: %s is told that %d units are durable, which are another's", p.id, p.name, ack.DurableSeq)
	}
	p.w.mu.Lock()
	p.acked = ack
	p.w.mu.Unlock()
	p.w.comes("a producer is told", nil)
}

// text is the stream's as this producer has it.
func (p *survivor) text(h history) *script {
	if h.heirs[p.name] == nil {
		return h.script
	}
	return h.last()
}

// survived is the check of what it is all for: what was produced is there, and whole.
func (w *world) survived(p *survivor) {
	w.t.Helper()
	h := w.judge.of(p.id)
	switch {
	case p.err != nil:
		w.t.Errorf("%s: the producer %s: %v", p.id, p.name, p.err)
	case p.sealed.Status != plane.StatusComplete || h.row.Status != plane.StatusComplete:
		w.t.Errorf("P: %s: %s sealed it %s, and the row is %s", p.id, p.name, p.sealed.Status, h.row.Status)
	case h.row.Seq != h.last().len() || h.row.Body != h.last().text(0, h.row.Seq) || h.row.Seq != p.sealed.Seq:
		w.t.Errorf("P: %s: %d units of %d, and %s was told %d", p.id, h.row.Seq, h.last().len(), p.name, p.sealed.Seq)
	}
}

// follow starts a reader of a stream through each member.
func (w *world) follow(id string) {
	for at := range w.members {
		w.read(id, at, "auto", 0)
	}
}

// placed starts a producer of a stream that is open, at its owner or through another
// member, and a reader through each.
func (w *world) placed(id string, direct bool, deltas int, pause time.Duration) (p *survivor, owner *member) {
	w.t.Helper()
	return w.saying(id, direct, newScript(w.rng, deltas), pause)
}

// saying is placed for a script.
func (w *world) saying(id string, direct bool, s *script, pause time.Duration) (p *survivor, owner *member) {
	w.t.Helper()
	w.judge.expect(id, s)
	if _, err := w.client(0, false).Open(w.ctx, id, wire.Open{Producer: "p"}); err != nil {
		w.t.Fatal(err)
	}
	owner, others := w.host(id)
	at := owner
	if !direct {
		at = others[0]
	}
	p = w.survivor(id, "p", w.index(at), s, pause)
	w.follow(id)
	return p, owner
}
