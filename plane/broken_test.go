package plane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// strict is a store that refuses writes for good, as long as it is told to.
type strict struct {
	*storetest.Memory
	refuses atomic.Bool
	asked   atomic.Int64
}

func (s *strict) refuse() error {
	if !s.refuses.Load() {
		return nil
	}
	s.asked.Add(1)
	return fmt.Errorf("write: %w", plane.ErrBroken)
}

func (s *strict) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	if err := s.refuse(); err != nil {
		return plane.Row{}, err
	}
	return s.Memory.Open(ctx, claim)
}

func (s *strict) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := s.refuse(); err != nil {
		return plane.Row{}, err
	}
	return s.Memory.Append(ctx, slice)
}

func (s *strict) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if err := s.refuse(); err != nil {
		return plane.Row{}, err
	}
	return s.Memory.Seal(ctx, seal)
}

func newStrict(t *testing.T) (*scene, *strict) {
	t.Helper()
	var store *strict
	return newScene(t, func(s *scene, c *plane.Config) {
		store = &strict{Memory: s.store}
		c.Store = store
	}), store
}

func TestACheckpointThatIsRefusedForGoodFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newStrict(t)
		store.refuses.Store(true)
		s.push("abc")
		began := time.Now()
		answer := <-s.flushed()
		if !errors.Is(answer, plane.ErrShort) || !errors.Is(answer, plane.ErrBroken) || time.Since(began) != 0 || store.asked.Load() != 1 {
			t.Errorf("flush after %v and %d tries: %v", time.Since(began), store.asked.Load(), answer)
		}
		synctest.Wait()
		if got := s.failures(); len(got) != 1 || got[0].Attempts != 1 || !errors.Is(got[0].Err, plane.ErrBroken) {
			t.Errorf("reported: %+v", got)
		}
		for range 100 {
			s.push(strings.Repeat("x", 512))
		}
		if s.after(0); store.asked.Load() != 1 {
			t.Errorf("text alone made %d more tries", store.asked.Load()-1)
		}
		s.after(time.Hour)
		if most := int64(time.Hour / (15 * time.Second)); store.asked.Load() < 10 || store.asked.Load() > most {
			t.Errorf("%d tries in an hour", store.asked.Load())
		}
		store.refuses.Store(false) // somebody has seen to it
		s.after(time.Minute)
		s.wantStored(s.pushed)
	})
}

func TestASealThatIsRefusedForGoodFailsAtOnceAndIsMadeGoodLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newStrict(t)
		s.push("abc")
		wantAnswer(t, "flush", s.flushed(), nil)
		store.refuses.Store(true)
		s.push("def")
		began := time.Now()
		end, err := s.Close(s.ctx)
		if !errors.Is(err, plane.ErrBroken) || time.Since(began) != 0 || store.asked.Load() != 1 || end.Seq != 3 {
			t.Errorf("close after %v and %d tries: %+v, %v", time.Since(began), store.asked.Load(), end, err)
		}
		store.refuses.Store(false)
		if err := s.Reseal(); err != nil {
			t.Error(err)
		}
		s.wantSealed(plane.StatusInterrupted)
	})
}

func TestAnOpenThatIsRefusedForGoodFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &strict{Memory: storetest.NewMemory()}
		store.refuses.Store(true)
		began := time.Now()
		_, err := plane.Open(t.Context(), plane.Config{Store: store}, plane.Claim{ID: "m1", Node: "n/1"})
		if !errors.Is(err, plane.ErrBroken) || plane.Refused(err) || store.asked.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("after %v and %d tries: %v", time.Since(began), store.asked.Load(), err)
		}
	})
}
