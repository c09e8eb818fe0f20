package clustertest

import (
	"slices"
	"testing"
	"time"
)

func TestACutBetweenTwoNodesCostsNoReaderItsText(t *testing.T) {
	c, g := guarded(t, 3)
	l := c.load("cut", streams, readers)
	one, other := c.nodes[0], c.nodes[1]
	hosts := c.hosts()
	var across []*reader // who read through one of the two what the other has
	for i, r := range l.readers {
		at, from := hosts[r.text.id], c.through(i/streams)
		if at == one && from == other || at == other && from == one {
			across = append(across, r)
		}
	}
	attached := func() float64 {
		return one.metric("rillkeep_relay_streams_attached") + other.metric("rillkeep_relay_streams_attached")
	}
	before := attached()
	if len(across) == 0 || before == 0 {
		t.Fatalf("%d readers are across, %v streams attached", len(across), before)
	}

	g.set(one, other, true)
	cut := time.Now()
	c.await("end of the attaches across", func() bool { return attached() <= before-float64(len(across))/2 })
	t.Logf("%d readers lost the live plane %v after the cut", len(across), time.Since(cut).Round(time.Millisecond))
	for range 2 { // what is said from now on they have from the durable plane
		said := make([]int64, len(across))
		for i, r := range across {
			said[i] = r.text.sent.Load()
		}
		began := time.Now()
		c.await("the text on the other side", func() bool {
			return l.ctx.Err() != nil || !slices.ContainsFunc(across, func(r *reader) bool {
				return r.at.Load() < said[slices.Index(across, r)]
			})
		})
		t.Logf("all had what was said until then after %v", time.Since(began).Round(time.Millisecond))
	}

	g.set(one, other, false)
	healed := time.Now()
	c.await("attaches across", func() bool { return attached() >= before })
	t.Logf("all were attached again %v after the healing", time.Since(healed).Round(time.Millisecond))
	c.settle()
	l.finish()
	l.tell()
	l.whole()
	l.steady()
}
