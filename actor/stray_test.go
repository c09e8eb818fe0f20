package actor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// The store went back behind a hand-over. Who had the stream before does not know, and
// who has it since can't write it.
func TestARowThatIsBackWithItsFormerOwnerIsGivenBackWhenItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		a.open("m1", "abc")
		a.handOver("m1")
		s := b.adopt("m1")
		if err := s.Push(t.Context(), "def"); err != nil {
			t.Error(err)
		}
		if _, err := s.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		a.store.Edit("m1", func(r *storetest.Row) { r.Token, r.Seq, r.Chunks = "n/1/1", 3, r.Chunks[:1] })
		if err := s.Push(t.Context(), "ghi"); err != nil {
			t.Error(err)
		}
		if _, err := s.Flush(t.Context()); !errors.Is(err, plane.ErrFenced) {
			t.Errorf("flush answered %v", err)
		}
		time.Sleep(time.Minute)
		a.wantStored("m1", 3, plane.StatusStreaming)
		for range 100 {
			a.Stray("m1")
		}
		calls := len(a.store.Calls())
		time.Sleep(10 * time.Second)
		a.wantStored("m1", 3, plane.StatusInterrupted)
		if n := len(a.store.Calls()) - calls; n > 4 {
			t.Errorf("%d calls", n)
		}
		a.wantCounts(0, 0)
	})
}

// What looked like a stray to who read its row a moment ago need not be one.
func TestNoStreamThatIsHereOrElsewhereIsAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts(t, 2, nil)
		a, b := hosts[0], hosts[1]
		a.open("here", "abc")
		a.open("elsewhere", "abc")
		a.open("nobody's", "abc")
		for _, id := range []string{"elsewhere", "nobody's"} {
			a.handOver(id)
		}
		b.adopt("elsewhere")
		for _, id := range []string{"here", "elsewhere", "nobody's", "unknown"} {
			a.Stray(id)
		}
		a.Stray("opened")
		a.open("opened", "abc")
		time.Sleep(3 * time.Minute)
		for _, id := range []string{"here", "elsewhere", "nobody's", "opened"} {
			a.wantStored(id, 3, plane.StatusStreaming)
		}
	})
}
