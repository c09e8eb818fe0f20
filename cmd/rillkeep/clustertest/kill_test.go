package clustertest

import (
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/store/lease"
)

// sealTime is how long it takes at most until streams of a node that died are
// sealed: its lease runs out, others give it time, and look every 5 s or so.
const sealTime = lease.DefaultTTL + lease.DefaultGrace + 25*time.Second

func TestAKilledNodesStreamsEndInterruptedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	l := c.load("kill", streams, readers)
	victim := c.nodes[0]
	lost := map[string]*producer{}
	for id, n := range c.hosts() {
		for _, p := range l.producers {
			if p.text.id == id && n == victim {
				p.once.Store(true)
				lost[id] = p
			}
		}
	}
	if len(lost) == 0 || len(lost) == streams {
		t.Fatalf("%s has %d streams", victim.name, len(lost))
	}
	c.await("a checkpoint of each", func() bool {
		for _, p := range lost {
			if p.durable.Load() == 0 {
				return false
			}
		}
		return true
	})
	victim.kill()
	killed := time.Now()
	_, cl := c.nodes[1].place()
	c.awaitFor(sealTime, "end of all that it had", func() bool {
		page, err := cl.List(t.Context(), client.Query{Status: "interrupted", Limit: streams})
		return err == nil && len(page.Streams) == len(lost)
	})
	t.Logf("%d streams were sealed %v after the kill", len(lost), time.Since(killed).Round(time.Second))
	l.finish()
	l.tell()
	l.whole()
	for id, p := range lost {
		snap := c.nodes[2].snapshot(id)
		if said := p.text.slice(0, p.text.sent.Load()); !strings.HasPrefix(said, snap.Text) || snap.Seq < p.durable.Load() {
			t.Errorf("%s has %d units, of which %d were durable", id, snap.Seq, p.durable.Load())
		}
	}
	for i, r := range l.readers {
		switch p := l.producers[i%streams]; {
		case lost[p.text.id] != nil:
			if snap := c.nodes[1].snapshot(p.text.id); r.end.status != plane.StatusInterrupted || r.end.seq != snap.Seq {
				t.Errorf("a reader of %s has its end as %s at %d, want %d", p.text.id, r.end.status, r.end.seq, snap.Seq)
			}
		case i/streams != 0 && r.returned > 0: // it never was at the one that was killed
			t.Errorf("a reader of %s came back %d times", p.text.id, r.returned)
		case r.rewound > 0:
			t.Errorf("a reader of %s was taken back %d times", p.text.id, r.rewound)
		}
	}
}
