package rows_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/store/internal/rows"
)

var errShut = errors.New("shut")

func TestClosingWaitsForCallsUnderWayAndLetsNoMoreBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls rows.Calls
		var under, shut atomic.Int32
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				err := calls.Do(func() error {
					under.Add(1)
					defer under.Add(-1)
					time.Sleep(time.Duration(n+1) * time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		for range 2 {
			all.Go(func() {
				err := calls.Close(t.Context(), func() error {
					shut.Add(1)
					if under.Load() != 0 {
						t.Errorf("%d calls are under way", under.Load())
					}
					return errShut
				})
				if !errors.Is(err, errShut) || time.Since(began) != 3*time.Second {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		if err := calls.Do(func() error { t.Error("it ran"); return nil }); err == nil {
			t.Error("a call began")
		}
		all.Wait()
		if shut.Load() != 1 {
			t.Errorf("it was shut %d times", shut.Load())
		}
	})
}

func TestAClosingThatGivesUpIsEndedByTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls rows.Calls
		var shut atomic.Bool
		closing := func() error { shut.Store(true); return errShut }
		var call sync.WaitGroup
		call.Go(func() { _ = calls.Do(func() error { time.Sleep(time.Minute); return nil }) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := calls.Close(ctx, closing); !errors.Is(err, context.DeadlineExceeded) || shut.Load() {
			t.Errorf("got %v, shut: %v", err, shut.Load())
		}
		call.Wait()
		synctest.Wait()
		if !shut.Load() {
			t.Error("it is open")
		}
		if err := calls.Close(ctx, closing); !errors.Is(err, errShut) { // although ctx has ended
			t.Errorf("got %v", err)
		}
	})
}

func TestACallAnswersWhatItDid(t *testing.T) {
	var calls rows.Calls
	if err := calls.Do(func() error { return errShut }); !errors.Is(err, errShut) {
		t.Errorf("got %v", err)
	}
}
