package plane_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestAnOpenThatIsRefusedIsNotRetried(t *testing.T) {
	for name, tt := range map[string]struct {
		row  func(*storetest.Row)
		want error
	}{
		"its text is there":            {func(r *storetest.Row) { r.Seq, r.Body = 3, "abc" }, plane.ErrExists},
		"a body is left":               {func(r *storetest.Row) { r.Body = "abc" }, plane.ErrExists},
		"a chunk is left":              {func(r *storetest.Row) { r.Chunks = []plane.Chunk{{Seq: 3, Text: "abc"}} }, plane.ErrExists},
		"its length is NULL":           {func(r *storetest.Row) { r.NullSeq = true }, plane.ErrNullLength},
		"it is another's":              {func(r *storetest.Row) { r.Status, r.Token = plane.StatusStreaming, "other/1/1" }, plane.ErrHeld},
		"another was quicker":          {nil, plane.ErrLostRace},
		"it does not exist, and ought": {func(*storetest.Row) {}, plane.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := storetest.NewMemory()
				switch {
				case tt.want == plane.ErrNotFound:
					m.MustExist = true
				case tt.row == nil:
					m.Edit("m1", func(*storetest.Row) {})
					m.Rival("m1", func(r *storetest.Row) { r.Status, r.Token = plane.StatusStreaming, "other/1/1" })
				default:
					m.Edit("m1", tt.row)
				}
				before, _ := m.Row("m1")
				begin := time.Now()
				_, err := plane.Open(t.Context(), plane.Config{Store: m}, plane.Claim{ID: "m1", Node: "n/1"})
				if !errors.Is(err, tt.want) || time.Since(begin) > 0 || len(m.Calls()) != 1 {
					t.Errorf("open answered %v after %s and %d calls", err, time.Since(begin), len(m.Calls()))
				}
				if after, _ := m.Row("m1"); tt.row != nil && (after.Token != before.Token || after.Status != before.Status) {
					t.Errorf("the row became %+v", after)
				}
			})
		})
	}
}

func TestAnOpenThatFailsIsRetriedWhole(t *testing.T) {
	for name, fail := range map[string]func(*storetest.Memory){
		"in its write":       func(m *storetest.Memory) { m.FailWrites(3) },
		"in its answer":      func(m *storetest.Memory) { m.LoseAcks(1) },
		"in its first check": func(m *storetest.Memory) { m.FailReads(3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, func(s *scene, _ *plane.Config) { fail(s.store) })
				s.push("abc")
				if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusComplete || s.Epoch() != 1 {
					t.Errorf("close of epoch %d answered %+v, %v", s.Epoch(), end, err)
				}
				s.wantSealed(plane.StatusComplete)
			})
		})
	}
}

func TestAnOpenGivesUpAfterItsRetriesOrWithItsContext(t *testing.T) {
	for name, tt := range map[string]struct {
		limit time.Duration
		calls int
		want  error
	}{
		"after its retries": {time.Hour, 4, storetest.ErrWrite},
		"with its context":  {120 * time.Millisecond, 2, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := storetest.NewMemory()
				m.FailWrites(1 << 30)
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				_, err := plane.Open(ctx, plane.Config{Store: m}, plane.Claim{ID: "m1", Node: "n/1"})
				if !errors.Is(err, tt.want) || !errors.Is(err, storetest.ErrWrite) || len(m.Calls()) != tt.calls {
					t.Errorf("open answered %v after %d calls", err, len(m.Calls()))
				}
			})
		})
	}
}

func TestARowThatEndedWithoutTextIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(s *scene, _ *plane.Config) {
			s.store.Edit("m1", func(r *storetest.Row) { r.Status, r.Epoch, r.Token = plane.StatusInterrupted, 3, "old/1/3" })
		})
		if s.Epoch() != 4 {
			t.Errorf("epoch %d", s.Epoch())
		}
		s.push("abc")
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		s.wantSealed(plane.StatusComplete)
	})
}
