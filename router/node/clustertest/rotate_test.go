package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/node"
)

// Who is on a list may be gone for good; that keeps apart nobody who has a lease.
func TestNamedSeedsThatAreGoneKeepNobodyApart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*node.Cluster){
		"one list for all": func(c *node.Cluster) { c.Join = []string{"10.0.0.1:7946"} },
		"no list":          func(*node.Cluster) {},
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1}, func(w *world) {
				w.change = func(c *node.Cluster) { c.Gossip.RejoinMemory = time.Minute; change(c) }
				w.start(4)
				w.members[0].vanish()
				w.agree(10 * time.Second)
				w.isolate(w.members[1])
				time.Sleep(10 * time.Minute)
				for _, m := range w.members[1:] {
					if m.metric("rillkeep_ring_unreached") == 0 || m.metric("rillkeep_ring_rejoin_failures_total") == 0 {
						w.t.Errorf("%s does not say that it is cut off", m.name)
					}
				}
				if n := w.members[1].metric("rillkeep_ring_members"); n != 1 {
					w.t.Errorf("the one that was cut off has %v members", n)
				}
				w.net.Heal()
				w.agree(20 * time.Second)
			})
		})
	}
}

// Three rounds of restarts change the secret, and nobody notices.
func TestASecretIsChangedWhileStreamsRun(t *testing.T) {
	t.Parallel()
	const next = "the secret of the next year"
	seeds(t, []uint64{1}, func(w *world) {
		w.start(3)
		w.load(4, 1200, 250*time.Millisecond, "auto")
		for _, secrets := range [][]string{{secret, next}, {next, secret}, {next}} {
			w.change = func(c *node.Cluster) { c.Secrets = secrets }
			for i := range w.members {
				old := w.members[i]
				old.drain()
				w.again(old)
				w.agree(10 * time.Second)
				w.more("auto")
			}
		}
		w.settle()
		if moves := w.moved(); moves < 4 {
			w.t.Errorf("%d streams changed hands", moves)
		}
		w.unseen(leaving...)
		for _, m := range w.members {
			for _, refused := range []string{"rillkeep_ring_refused_total"} {
				if n := m.metric(refused); n != 0 {
					w.t.Errorf("%s: %s is %v", m.name, refused, n)
				}
			}
		}
	})
}
