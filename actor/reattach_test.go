package actor_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// An owner that can be asked, and answers that it has the stream no more, or is giving
// it up: nobody may have it yet, and for a window it is looked for.
func TestAStreamThatNobodyHasAnyMoreIsLookedForAsLongAsTheWindow(t *testing.T) {
	for name, answer := range map[string]plane.Frame{
		"absent": {Kind: plane.KindAbsent},
		"stale":  {Kind: plane.KindStale, FloorSeq: 3, DurableSeq: 3},
	} {
		for outcome, back := range map[string]bool{"in vain": false, "and found": true} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var gone atomic.Bool
					p := newPair(t, nil)
					p.wire.twist = func(f plane.Frame) ([]plane.Frame, time.Duration) {
						if gone.Load() {
							f = answer
						}
						return []plane.Frame{f}, 0
					}
					s := p.owner.open("m1", "abc")
					c := p.join(t, "m1", 0)
					synctest.Wait()
					if text, _ := drain(c); text != "abc" {
						t.Fatalf("read %q", text)
					}
					gone.Store(true)
					p.wire.cut()
					time.Sleep(actor.DefaultAttachWindow / 2)
					gone.Store(!back)
					time.Sleep(actor.DefaultAttachWindow/2 - time.Millisecond)
					push(t, s, "def")
					synctest.Wait()
					text, last := drain(c)
					if back && text != "def" || !back && (text != "" || last.Kind != "") {
						t.Errorf("before the window is over it read %q, %+v", text, last)
					}
					asked, _ := p.wire.attaches()
					if asked < 4 || asked > 12 { // at once, then after 50 ms, doubled, with jitter
						t.Errorf("asked %d times in the window", asked)
					}
					time.Sleep(time.Minute)
					text, last = drain(c)
					if want := map[bool]plane.Kind{true: plane.KindDurable, false: plane.KindStale}[back]; text != "" || last.Kind != want {
						t.Errorf("then it read %q, %+v", text, last)
					}
					if again, open := p.wire.attaches(); again > asked+1 || open > 1 {
						t.Errorf("asked %d more times, %d sources are open", again-asked, open)
					}
					c.Close()
				})
			})
		}
	}
}
