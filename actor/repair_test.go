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

// The seal by which a claim is given back may be as late as the claim. It goes by the
// owner token, which an open that takes the claim over has, too.
func TestAClaimIsNotTakenOverWhileItIsGivenBack(t *testing.T) {
	for name, arrives := range map[string]bool{"by a seal that is late": true, "by a seal that is lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				h.failedOpen("m1")
				if _, err := h.store.Open(t.Context(), plane.Claim{ID: "m1", Node: "n/1"}); err != nil { // it was late
					t.Fatal(err)
				}
				h.store.FailWrites(1) // the seal
				time.Sleep(1500 * time.Millisecond)
				for range 3 {
					if _, err := h.Open(t.Context(), plane.Claim{ID: "m1"}); !errors.Is(err, plane.ErrNoAnswer) {
						t.Errorf("an open was answered %v", err)
					}
					if _, err := h.Adopt(t.Context(), "m1"); !errors.Is(err, plane.ErrNoAnswer) {
						t.Errorf("an adoption was answered %v", err)
					}
				}
				late := plane.Seal{ID: "m1", Token: "n/1/1", Status: plane.StatusInterrupted}
				if arrives {
					if _, err := h.store.Seal(t.Context(), late); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second) // it is asked again, and answered
				h.wantStored("m1", 0, plane.StatusInterrupted)
				s := h.open("m1", "abc")
				if _, err := h.store.Seal(t.Context(), late); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				h.wantStored("m1", 3, plane.StatusComplete)
			})
		})
	}
}

// Where nothing was asked, for the store could not even be read, nothing can be late.
func TestAClaimThatCouldNotBeLookedForMayBeTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.failedOpen("m1")
		h.store.FailReads(1)
		time.Sleep(1100 * time.Millisecond)
		h.store.Clear()
		s := h.open("m1", "abc")
		time.Sleep(2 * time.Minute)
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
