package plane_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// lockable is a store in which another session may have the row locked.
type lockable struct {
	plane.Store
	locked atomic.Bool
}

func (l *lockable) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if l.locked.Load() {
		return plane.Row{}, fmt.Errorf("seal: %w", plane.ErrBusy)
	}
	return l.Store.Seal(ctx, seal)
}

func TestASealWaitsForALockedRow(t *testing.T) {
	for name, tt := range map[string]struct {
		locked, took time.Duration // took is rounded to seconds
		status       plane.Status
	}{
		"for ten seconds":  {10 * time.Second, 10 * time.Second, plane.StatusComplete},
		"and not for ever": {time.Hour, 30 * time.Second, plane.StatusInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row := new(lockable)
				s := newScene(t, func(s *scene, c *plane.Config) { row.Store, c.Store = s.store, row })
				s.push("abc")
				c := s.Join(0)
				defer c.Close()
				row.locked.Store(true)
				defer time.AfterFunc(tt.locked, func() { row.locked.Store(false) }).Stop()
				began := time.Now()
				end, err := s.Close(s.ctx)
				if end.Status != tt.status || errors.Is(err, plane.ErrBusy) == (tt.status == plane.StatusComplete) {
					t.Errorf("close answered %+v, %v", end, err)
				}
				if took := time.Since(began); took.Truncate(2*time.Second) != tt.took {
					t.Errorf("close took %s, want %s", took, tt.took)
				}
				if got := take(c).last; got.Kind != plane.KindEnd || got.Status != tt.status {
					t.Errorf("a reader was told %+v", got)
				}
				if len(s.rounds) != 1 || s.rounds[0].Attempts > 50 {
					t.Errorf("reported %+v", s.rounds)
				}
			})
		})
	}
}

func TestAnAbandonedStreamDoesNotWaitForALockedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := new(lockable)
		s := newScene(t, func(s *scene, c *plane.Config) { row.Store, c.Store = s.store, row })
		row.locked.Store(true)
		closed := s.closed()
		s.after(5 * time.Second)
		wantNone(t, "close", closed)
		began := time.Now()
		if err := s.Abandon(s.ctx); err != nil || time.Since(began) > 0 {
			t.Errorf("abandon answered %v after %s", err, time.Since(began))
		}
		wantAnswer(t, "close", closed, plane.ErrBusy)
	})
}
