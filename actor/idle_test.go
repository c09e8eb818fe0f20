package actor_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
)

// B: what a node pays for streams that wait for their models is memory alone.
func TestAnIdleStreamHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		before := runtime.NumGoroutine()
		const streams = 1000
		for i := range streams {
			s := h.open(fmt.Sprint("m", i), "delta")
			if _, err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		const exiting = 10 // may still be counted
		if now := runtime.NumGoroutine(); now > before+exiting {
			t.Errorf("%d goroutines with %d idle streams, %d before", now, streams, before)
		}
		if live, _ := h.Counts(); live != streams {
			t.Errorf("%d streams are live", live)
		}
	})
}
