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

// lockedStore is a store in which others have the rows locked that are called so.
type lockedStore struct{ plane.Store }

func (l lockedStore) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if strings.HasPrefix(seal.ID, "locked") {
		return plane.Row{}, fmt.Errorf("seal: %w", plane.ErrBusy)
	}
	return l.Store.Seal(ctx, seal)
}

// I: however many rows others have locked, the rest of the streams end long before
// the time is over.
func TestLockedRowsCostADrainNoOtherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(c *actor.Config) { c.Plane.Store = lockedStore{c.Plane.Store} })
		for i := range 200 {
			h.open(fmt.Sprint("locked", i), "abc")
			h.open(fmt.Sprint("free", i), "abc")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- h.Drain(ctx) }()
		time.Sleep(10 * time.Second)
		for i := range 200 {
			h.wantStored(fmt.Sprint("free", i), 3, plane.StatusInterrupted)
		}
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "free") {
			t.Errorf("drain answered %v", err)
		}
	})
}
