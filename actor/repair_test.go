package actor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// An open that failed without an answer may be on its way to the database still.
func TestAClaimThatIsLateIsGivenBack(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"by seconds": 5 * time.Second, "by its deadline and more": 65 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				h.failedOpen("m1")
				time.Sleep(late)
				if _, err := h.store.Open(t.Context(), plane.Claim{ID: "m1", Node: "n/1"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				h.wantStored("m1", 0, plane.StatusInterrupted)
				if live, _ := h.Counts(); live != 0 {
					t.Errorf("%d are live", live)
				}
			})
		})
	}
}

func TestALateClaimIsNotLookedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.failedOpen("m1")
		calls := len(h.store.Calls())
		time.Sleep(2 * time.Minute)
		looks := len(h.store.Calls()) - calls
		if looks < 4 || looks > 10 {
			t.Errorf("looked %d times in two minutes", looks)
		}
		time.Sleep(time.Hour)
		if n := len(h.store.Calls()) - calls; n != looks {
			t.Errorf("looked %d times more", n-looks)
		}
	})
}

func TestALateClaimIsLeftToWhoOpensTheNameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.failedOpen("m1")
		time.Sleep(5 * time.Second)
		s := h.open("m1", "abc")
		time.Sleep(2 * time.Minute)
		h.wantStored("m1", 3, plane.StatusStreaming)
		if st := s.State(); st.Over {
			t.Errorf("the stream is %+v", st)
		}
	})
}

// failedOpen makes an open that has used up its retries.
func (h *host) failedOpen(id string) {
	h.t.Helper()
	h.store.FailWrites(plane.DefaultPolicy().Retries + 1)
	if _, err := h.Open(h.t.Context(), plane.Claim{ID: id}); !errors.Is(err, storetest.ErrWrite) {
		h.t.Fatalf("open answered %v", err)
	}
}
