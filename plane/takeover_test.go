package plane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// orphaned is a store in which the leases of all nodes are over whose names begin
// with gone, and that loses answers of takeovers.
type orphaned struct {
	*storetest.Memory
	gone   string
	lose   int
	asked  int
	refuse error
}

func (o *orphaned) TakeOver(_ context.Context, token string, claim plane.Claim) (row plane.Row, err error) {
	o.asked++
	if o.refuse != nil {
		return plane.Row{}, o.refuse
	}
	err = plane.ErrNotFound
	o.Edit(claim.ID, func(r *storetest.Row) {
		own := plane.MakeToken(claim.Node, r.Epoch, plane.Row{Token: r.Token}.Origins())
		switch {
		case r.Status.Ended():
			err = plane.ErrClosed
			return
		case r.Status != plane.StatusStreaming:
			return
		case r.Token == own && token != own: // the answer was lost
		case r.Token != token:
			err = plane.ErrLostRace
			return
		case !strings.HasPrefix(token, o.gone):
			err = plane.ErrHeld
			return
		default:
			r.Epoch++
			r.Token = plane.MakeToken(claim.Node, r.Epoch, plane.Row{Token: r.Token}.Origins().Begin(r.Seq))
			r.Producer = claim.Producer
		}
		row = plane.Row{Seq: r.Seq, Status: r.Status, Cancel: r.Cancel, Token: r.Token, Epoch: r.Epoch, Producer: r.Producer}
		err = nil
	})
	if o.lose > 0 {
		o.lose--
		return plane.Row{}, storetest.ErrAckLost
	}
	return row, err
}

// takenOver takes the scene's stream over for n/2, as if its node were dead.
func (s *scene) takenOver(o *orphaned) (*plane.Stream, error) {
	o.Memory = s.store
	cfg := plane.Config{Store: o, Texts: store.Texts(s.store)}
	next, err := plane.TakeOver(s.ctx, cfg, plane.Claim{ID: "m1", Node: "n/2", Producer: "app"})
	if next != nil {
		s.t.Cleanup(func() {
			if err := next.Abandon(context.Background()); err != nil {
				s.t.Errorf("abandon: %v", err)
			}
		})
	}
	return next, err
}

func TestATakeoverBeginsAnEpochWhereTheDurableTextEnds(t *testing.T) {
	for name, lose := range map[string]int{"at once": 0, "where answers are lost": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.push("abc😀")
				s.after(time.Second)
				s.push("lost") // with its owner
				next, err := s.takenOver(&orphaned{gone: "n/1/", lose: lose})
				if err != nil {
					t.Fatal(err)
				}
				if st := next.State(); st.Seq != 5 || st.Received != 5 || st.Durable != 5 || st.Over {
					t.Errorf("it is %+v", st)
				}
				now := plane.ProducerEpoch{Epoch: 2, Session: 1}
				if next.Epoch() != 2 || next.ProducerEpoch() != now {
					t.Errorf("it is in %v of epoch %d", next.ProducerEpoch(), next.Epoch())
				}
				for _, r := range []struct{ from, epoch, want int64 }{{9, 1, 5}, {3, 1, 3}, {9, 2, 9}, {9, 0, 9}} {
					if got := next.Rewind(r.from, r.epoch); got != r.want {
						t.Errorf("a reader at %d@%d goes back to %d, want %d", r.from, r.epoch, got, r.want)
					}
				}
				if err := next.PushAs(t.Context(), plane.ProducerEpoch{Epoch: 1, Session: 7}, 5, "x"); !errors.Is(err, plane.ErrSuperseded) {
					t.Errorf("a producer of the epoch before was answered %v", err)
				}
				if err := next.PushAs(t.Context(), now, 5, "NEW"); err != nil {
					t.Error(err)
				}
				reader := next.Join(next.Rewind(9, 1))
				defer reader.Close()
				got := take(reader)
				if got.from != 5 || got.text != "NEW" || got.frames[0].Epoch != 2 || got.last.Epoch != 2 {
					t.Errorf("a reader got %+v", got)
				}
				if id := string(plane.AppendResume(nil, got.last)); id != "8@2" {
					t.Errorf("it comes back with %s", id)
				}
				// The owner before returns, and learns it.
				old := s.Join(0)
				defer old.Close()
				s.after(time.Minute)
				if err := s.Push(t.Context(), "zombie"); !errors.Is(err, plane.ErrFenced) || errors.Is(err, plane.ErrSuperseded) {
					t.Errorf("the owner before answered %v", err)
				}
				if err := s.PushAs(t.Context(), now, 9, "x"); !errors.Is(err, plane.ErrProducerEpoch) {
					t.Errorf("it answered the producer of now %v", err)
				}
				if got := take(old); got.last.Kind != plane.KindStale {
					t.Errorf("its reader was told %+v", got.last)
				}
				if _, err := next.Resume("app"); err != nil {
					t.Error(err)
				}
				if _, err := next.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if r, _ := s.store.Row("m1"); r.Body != "abc😀NEW" || r.Status != plane.StatusComplete || r.Token != "n/2/2/5" {
					t.Errorf("the row is %s %q under %s", r.Status, r.Body, r.Token)
				}
			})
		})
	}
}

func TestTheCancelFlagOfWhatIsTakenOverIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.after(time.Second)
		s.store.Edit("m1", func(r *storetest.Row) { r.Cancel = true })
		next, err := s.takenOver(&orphaned{gone: "n/1/"})
		if err != nil || !next.IsCancelled() {
			t.Fatalf("%v, %v", next, err)
		}
		s.after(3 * time.Second)
		s.wantSealed(plane.StatusCancelled)
	})
}

func TestWhatIsNoOrphanIsNotTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene, *orphaned)
		want   error
		asked  int
	}{
		"its owner's lease lasts": {func(_ *scene, o *orphaned) { o.gone = "other/" }, plane.ErrHeld, 1},
		"it has ended":            {func(s *scene, _ *orphaned) { _, _ = s.Close(s.ctx) }, plane.ErrClosed, 1},
		"it is not there":         {func(s *scene, _ *orphaned) { s.store.Delete("m1") }, plane.ErrNotFound, 0},
		"another was faster":      {func(s *scene, o *orphaned) { o.refuse = plane.ErrLostRace }, plane.ErrLostRace, 1},
		"it is to be adopted": {func(s *scene, _ *orphaned) {
			s.store.Edit("m1", func(r *storetest.Row) { r.Token = "/1700.1/1" })
		}, plane.ErrLostRace, 0},
		"the store can't": {func(_ *scene, o *orphaned) { o.refuse = errors.ErrUnsupported }, errors.ErrUnsupported, 1},
		"the store fails": {func(_ *scene, o *orphaned) { o.refuse = storetest.ErrWrite }, storetest.ErrWrite, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				o := &orphaned{gone: "n/1/"}
				c.change(s, o)
				if _, err := s.takenOver(o); !errors.Is(err, c.want) {
					t.Errorf("answered %v, want %v", err, c.want)
				}
				if o.asked != c.asked {
					t.Errorf("the store was asked %d times", o.asked)
				}
			})
		})
	}
	cfg := plane.Config{Store: sealing{storetest.NewMemory(), nil}}
	if _, err := plane.TakeOver(t.Context(), cfg, plane.Claim{ID: "m1", Node: "n/2"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without texts: %v", err)
	}
}

func TestWhatCannotBeTakenOverWholeIsTextLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		s.after(time.Second)
		s.push("def")
		s.after(time.Second)
		s.store.Edit("m1", func(r *storetest.Row) { r.Chunks = r.Chunks[1:] })
		o := &orphaned{gone: "n/1/"}
		_, err := s.takenOver(o)
		if hole, ok := errors.AsType[*plane.HoleError](err); !errors.Is(err, plane.ErrTextLost) || !ok || hole.At != 0 {
			t.Errorf("answered %v", err)
		}
		settled, err := plane.GiveBack(t.Context(), plane.Config{Store: o}, plane.Claim{ID: "m1", Node: "n/2"})
		if r, _ := s.store.Row("m1"); !settled || err != nil || r.Status != plane.StatusInterrupted {
			t.Errorf("given back: %v, %v, %+v", settled, err, r)
		}
	})
}
