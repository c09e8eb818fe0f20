package clustertest

import (
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/lease"
)

// ended fails the test unless the streams that were at a node ended interrupted, with
// all that their producers were told is durable, and the others complete.
func (w *world) ended(at map[string]*member, lost *member) {
	w.t.Helper()
	for _, p := range w.producers {
		h := w.judge.of(p.id)
		want := plane.StatusComplete
		if at[p.id] == lost {
			want = plane.StatusInterrupted
		}
		if h.row.Status != want || h.opens != 1 {
			w.t.Errorf("%s, of %s: it ended %s after %d opens, want %s", p.id, at[p.id].name, h.row.Status, h.opens, want)
		}
	}
}

// hosts is where all streams are.
func (w *world) hosts() map[string]*member {
	at := map[string]*member{}
	for _, p := range w.producers {
		at[p.id], _ = w.host(p.id)
	}
	return at
}

// orphanTime is how long a stream whose owner is gone may say streaming.
const orphanTime = lease.DefaultTTL + lease.DefaultGrace + lease.DefaultTTL/2 + time.Second

func TestStreamsOfAnOwnerThatCrashesEndInterruptedWithWhatWasCheckpointed(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(*member){"killed": (*member).kill, "vanished": (*member).vanish} {
		t.Run(name, func(t *testing.T) {
			seeds(t, []uint64{1, 2}, func(w *world) {
				w.start(4)
				w.load(6, 100, 200*time.Millisecond, "auto")
				time.Sleep(5 * time.Second)
				w.more("auto", "durable")
				at := w.hosts()
				lost := at[w.producers[0].id]
				crash(lost)
				w.agree(15 * time.Second)
				w.more("auto")
				w.until(orphanTime, "orphans are sealed", func() bool {
					for id, m := range at {
						if m == lost && !w.judge.of(id).row.Status.Ended() {
							return false
						}
					}
					return true
				})
				w.settle()
				w.ended(at, lost)
			})
		})
	}
}
