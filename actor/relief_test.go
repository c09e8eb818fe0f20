package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// newBudgeted returns a host whose text may take so many bytes, and whose streams
// make nothing durable by themselves.
func newBudgeted(t *testing.T, limit int64) (*host, *plane.Budget) {
	t.Helper()
	b := plane.NewBudget(limit)
	h := newHost(t, func(c *actor.Config) {
		c.Plane.Budget = b
		c.Plane.Policy = plane.DefaultPolicy()
		c.Plane.Policy.Units, c.Plane.Policy.Interval = 1<<20, time.Hour
	})
	return h, b
}

// ended opens a stream with text and closes it.
func (h *host) ended(id, text string) {
	h.t.Helper()
	if _, err := h.open(id, text).Close(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait() // the hooks are told after the closer
}

// hosted are those of the names that can be joined.
func (h *host) hosted(names ...string) string {
	var found []string
	for _, name := range names {
		if _, ok := h.Stream(name); ok {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

// kilobytes is a text of so many KiB.
func kilobytes(n int) string { return strings.Repeat("0123456789abcdef", 64*n) }

func TestTextOfRetiredStreamsIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newBudgeted(t, 1<<30)
		h.ended("complete", kilobytes(10))
		h.open("live", kilobytes(10))
		fails := h.open("fails", "text")
		h.store.FailWrites(1000)
		if _, err := fails.Close(t.Context()); err == nil {
			t.Fatal("close should fail")
		}
		h.store.Clear()
		fenced := h.open("fenced", "abc")
		h.take("fenced")
		if _, err := fenced.Flush(t.Context()); err == nil {
			t.Fatal("flush should fail")
		}
		if b.Used() < 20<<10 {
			t.Errorf("%d bytes are counted", b.Used())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if live, lingering := h.Counts(); live != 1 || lingering != 0 || b.Used() < 10<<10 || b.Used() > 12<<10 {
			t.Errorf("%d live, %d linger, %d bytes", live, lingering, b.Used())
		}
		h.ended("lingers", kilobytes(1))
		if err := h.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if b.Used() != 0 {
			t.Errorf("%d bytes are counted when nothing is hosted", b.Used())
		}
	})
}

func TestStreamsThatEndedFirstMakeRoomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newBudgeted(t, 100<<10)
		names := []string{"first", "second", "third", "fourth"}
		for _, name := range names {
			h.ended(name, kilobytes(20))
			time.Sleep(time.Second)
		}
		behind, err := h.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "first"})
		if err != nil {
			t.Fatal(err)
		}
		s := h.open("live", kilobytes(10))
		synctest.Wait()
		if got := h.hosted(names...); got != "first second third fourth" {
			t.Errorf("within the budget: %s", got)
		}
		if err := s.Push(t.Context(), kilobytes(30)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := h.hosted(names...); !strings.HasSuffix("first second third fourth", got) || got == "" || len(got) > len("second third fourth") {
			t.Errorf("over the budget: %s", got)
		}
		if b.Exceeded() {
			t.Errorf("%d bytes are left", b.Used())
		}
		if text, last := drain(behind); last.Kind != plane.KindStale {
			t.Errorf("a reader of the first read %d bytes and %+v", len(text), last)
		}
		if _, last := h.read("first", 0); last.Kind != plane.KindAbsent {
			t.Errorf("who comes after was told %+v", last)
		}
		if text, last := h.read("fourth", 0); text != kilobytes(20) || last.Kind != plane.KindEnd {
			t.Errorf("the one that ended last: %d bytes and %+v", len(text), last)
		}
		h.wantStored("first", 20<<10, plane.StatusComplete)
	})
}

func TestIdleStreamsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newBudgeted(t, 1<<20)
		for i := range 9 {
			if _, err := h.open(fmt.Sprint("idle", i), kilobytes(100)).Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if text, last := h.read("idle3", 0); text != kilobytes(100) || last.Kind != plane.KindDurable {
			t.Errorf("within the budget: %d bytes and %+v", len(text), last)
		}
		before := b.Used()
		h.open("more", kilobytes(200))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if b.Used() > before/2 { // the rest is what was pushed last
			t.Errorf("%d bytes are left of %d", b.Used(), before)
		}
		if _, last := h.read("idle3", 0); last.Kind != plane.KindStale || last.DurableSeq != 100<<10 {
			t.Errorf("who reads from the beginning was told %+v", last)
		}
		s, _ := h.Stream("idle3")
		if err := s.Push(t.Context(), "goes on"); err != nil {
			t.Fatal(err)
		}
		if text, _ := h.read("idle3", 100<<10); text != "goes on" {
			t.Errorf("who is at the tip read %q", text)
		}
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := h.store.Row("idle3"); r.Body != kilobytes(100)+"goes on" || r.Status != plane.StatusComplete {
			t.Errorf("%d bytes are stored, %s", len(r.Body), r.Status)
		}
	})
}

func TestANodeFullOfTextOpensNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newBudgeted(t, 100<<10)
		open := func() error {
			_, err := h.Open(t.Context(), plane.Claim{ID: "new"})
			return err
		}
		h.ended("ended", kilobytes(90))
		s := h.open("live", "")
		if err := s.Push(t.Context(), kilobytes(101)); err != nil {
			t.Fatal(err)
		}
		if err := open(); !errors.Is(err, plane.ErrFull) {
			t.Errorf("with all of it outstanding: %v", err)
		}
		if got := h.hosted("ended"); got != "" {
			t.Errorf("%s is held all the same", got)
		}
		if _, err := h.Open(t.Context(), plane.Claim{ID: "live"}); !errors.Is(err, plane.ErrOpenHere) {
			t.Errorf("a name that is held: %v", err)
		}
		if _, err := s.Flush(t.Context()); err != nil || b.Exceeded() {
			t.Errorf("%d bytes are left, %v", b.Used(), err)
		}
		if err := open(); err != nil {
			t.Errorf("with all of it durable: %v", err)
		}
	})
}

func TestAnOpenMakesRoomForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newBudgeted(t, 100<<10)
		for i := range 20 { // one at once after the other
			h.ended(fmt.Sprint("m", i), kilobytes(60))
		}
		if live, lingering := h.Counts(); live != 0 || lingering == 0 || lingering > 2 {
			t.Errorf("%d live, %d linger", live, lingering)
		}
	})
}

func TestAStreamThatEndsWhileTextIsShortDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newBudgeted(t, 100<<10)
		s := h.open("ends", kilobytes(10))
		h.open("live", kilobytes(200))
		time.Sleep(time.Minute) // and whatever was to be done because of that is done
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := h.hosted("ends", "live"); got != "live" {
			t.Errorf("held are: %s", got)
		}
		h.wantStored("ends", 10<<10, plane.StatusComplete)
	})
}
