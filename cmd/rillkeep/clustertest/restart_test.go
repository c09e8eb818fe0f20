package clustertest

import (
	"strings"
	"testing"
	"time"
)

func TestARollingRestartLosesNothing(t *testing.T) {
	c := open(t, 3)
	l := c.load("chat", streams, readers)
	for _, n := range c.nodes {
		took := n.stop()
		t.Logf("%s drained in %v", n.name, took.Round(time.Millisecond))
		if took > drain+10*time.Second {
			t.Errorf("%s: the drain took %v", n.name, took)
		}
		if said := n.run().Err.String(); strings.Contains(said, "could not leave") || !strings.Contains(said, `"left":0`) {
			t.Errorf("%s did not leave as it should", n.name)
		}
		n.start()
		c.settle()
	}
	l.finish()
	l.tell()
	l.whole()
	l.steady()
}

// Who is alone has nobody to tell, and nobody to hand anything to.
func TestANodeThatIsAloneDrainsAtOnce(t *testing.T) {
	t.Parallel()
	c := open(t, 1)
	p := &producer{c: c, text: newText("m1", 1), pause: time.Millisecond}
	if err := p.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.speak(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("drained in %v", c.nodes[0].stop().Round(time.Millisecond))
	if said := c.nodes[0].run().Err.String(); strings.Contains(said, "handed over") || strings.Contains(said, `"WARN"`) {
		t.Errorf("it said %s", said)
	}
	c.nodes[0].start()
	if snap := c.nodes[0].snapshot("m1"); snap.Status != "interrupted" || snap.Seq != p.pos {
		t.Errorf("it left %+v, want %d units", snap, p.pos)
	}
}
