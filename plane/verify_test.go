package plane_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestAStreamThatWritesNothingFindsOutThatItsRowIsNotItsOwn(t *testing.T) {
	for name, change := range map[string]func(*storetest.Memory){
		"it was sealed": func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Status = plane.StatusInterrupted })
		},
		"it is another's": func(m *storetest.Memory) {
			m.Edit("m1", func(r *storetest.Row) { r.Token, r.Epoch = "n/2/2", 2 })
		},
		"it is gone": func(m *storetest.Memory) { m.Delete("m1") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.push("durable")
				if _, err := s.Flush(s.ctx); err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(s.ctx); err != nil {
					t.Errorf("while it is its own: %v", err)
				}
				change(s.store)
				s.store.FailReads(1)
				if err := s.Verify(s.ctx); errors.Is(err, plane.ErrFenced) || err == nil {
					t.Errorf("while the store does not answer: %v", err)
				}
				cursor := s.Join(7)
				defer cursor.Close()
				if err := s.Verify(s.ctx); !errors.Is(err, plane.ErrFenced) {
					t.Errorf("got %v", err)
				}
				for range 3 { // open, durable, and then
					if f, err := cursor.Next(s.ctx); err != nil || f.Kind == plane.KindStale {
						break
					} else if f.Terminal() {
						t.Errorf("a reader got %+v", f)
					}
				}
				if err := s.Push(s.ctx, "x"); !errors.Is(err, plane.ErrFenced) {
					t.Errorf("push: %v", err)
				}
				synctest.Wait()
				if err := s.Verify(s.ctx); err != nil || len(s.ended) != 1 {
					t.Errorf("again: %v, ended %d times", err, len(s.ended))
				}
			})
		})
	}
}

// What is under way finds out by itself, and it is its answer that counts.
func TestNobodyVerifiesAStreamThatIsBeingSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("text")
		s.store.LoseAcks(1)
		end, err := s.Close(s.ctx)
		synctest.Wait()
		if err := s.Verify(s.ctx); err != nil {
			t.Errorf("got %v", err)
		}
		if err != nil || end.Status != plane.StatusComplete || len(s.ended) != 1 {
			t.Errorf("%+v, %v, ended %d times", end, err, len(s.ended))
		}
	})
}
