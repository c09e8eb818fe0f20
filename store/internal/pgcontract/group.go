package pgcontract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// testJudged: what plane.Store says of one append holds for each of a batch, also
// of one that has met rows that are locked.
func testJudged(t *testing.T, open func(testing.TB) *Subject) {
	for name, locked := range map[string]bool{"of free rows": false, "of which some are locked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged(t, open(t), locked)
		})
	}
}

func judged(t *testing.T, s *Subject, locked bool) {
	edits := map[string]func(*storetest.Row){
		"behind":    func(r *storetest.Row) { r.Seq = 2 },
		"another's": func(r *storetest.Row) { r.Token, r.Epoch = "n2/boot1/2", 2 },
		"cancelled": func(r *storetest.Row) { r.Cancel = true },
		"ended":     func(r *storetest.Row) { r.Status = plane.StatusInterrupted },
		"repeated":  func(r *storetest.Row) { r.Seq, r.Chunks = 4, []plane.Chunk{{Seq: 4, Text: "ab😀"}} },
		"fits":      nil,
	}
	if locked {
		edits["locked"], edits["locked behind"] = nil, edits["behind"]
	}
	var batch []plane.Slice
	want := make(map[string]storetest.Row)
	for id, edit := range edits {
		batch = append(batch, plane.Slice{ID: id, Token: s.claim(t, id).Token, Seq: 4, Text: "ab😀"})
		if edit != nil {
			s.Edit(id, edit)
		}
		row, _ := s.Row(id)
		if id == "fits" || id == "cancelled" || id == "another's" && s.Tokenless {
			row.Seq, row.Chunks = 4, []plane.Chunk{{Seq: 4, Text: "ab😀"}}
		}
		want[id] = row
	}
	batch = append(batch, plane.Slice{ID: "missing", Token: token, Seq: 4, Text: "ab😀"})
	if locked {
		s.Lock(t, "locked")
		s.Lock(t, "locked behind")
	}
	answers, err := s.Batch(batch)
	if err != nil {
		t.Fatal(err)
	}
	for n, got := range answers {
		id := batch[n].ID
		wantErr := map[string]error{"locked": store.ErrBusy, "missing": plane.ErrNotFound}[id]
		row, _ := s.Row(id)
		if row.Seq != want[id].Seq || len(row.Chunks) != len(want[id].Chunks) {
			t.Errorf("%s: the row is %+v, want %+v", id, row, want[id])
		}
		told := plane.Row{Seq: row.Seq, Status: row.Status, Cancel: row.Cancel, Token: row.Token, Epoch: row.Epoch}
		if s.Tokenless {
			told.Epoch = 1
		}
		if wantErr != nil {
			told = plane.Row{}
		}
		if got.Row != told || !errors.Is(got.Err, wantErr) {
			t.Errorf("%s: told %+v, %v, want %+v", id, got.Row, got.Err, told)
		}
	}
}

// AppendAll appends to many streams at once, step after step, and answers the
// errors of each.
func (s *Subject) AppendAll(ctx context.Context, t *testing.T, ids []string, steps int, text func(id string) string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, id := range ids {
		row := s.claim(t, id)
		all.Go(func() {
			delta := text(id)
			for range steps {
				next, err := s.Append(ctx, plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: row.Seq + int64(len(delta)), Text: delta})
				if err != nil {
					mu.Lock()
					errs[id] = err
					mu.Unlock()
					return
				}
				row = next
			}
		})
	}
	all.Wait()
	return errs
}

// IDs are names of n streams.
func IDs(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%03d", i))
	}
	return all
}

func testLocked(t *testing.T, open func(testing.TB) *Subject) {
	s := open(t)
	row := s.claim(t, "locked")
	release := s.Lock(t, "locked")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	slice := plane.Slice{ID: "locked", Token: row.Token, Seq: 3, Text: "abc"}
	busy, done := 0, make(chan struct{})
	var tries sync.WaitGroup
	tries.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Append(ctx, slice); !errors.Is(err, store.ErrBusy) {
				t.Errorf("of the locked one: %v", err)
				return
			}
			busy++
		}
	})
	for id, err := range s.AppendAll(ctx, t, IDs(100), 15, func(string) string { return "text" }) {
		t.Errorf("%s: %v", id, err)
	}
	close(done)
	tries.Wait()
	if busy < 2 {
		t.Errorf("told %d times that it is locked", busy)
	}
	release()
	if row, err := s.Append(ctx, slice); err != nil || row.Seq != 3 {
		t.Errorf("once it is free: %+v, %v", row, err)
	}
}

func testBadSlice(t *testing.T, open func(testing.TB) *Subject) {
	s := open(t)
	s.Refuse(t, "evil")
	bad := func(id string) bool { return strings.HasSuffix(id, "7") }
	errs := s.AppendAll(t.Context(), t, IDs(100), 5, func(id string) string {
		if bad(id) {
			return "evil"
		}
		return "text"
	})
	for _, id := range IDs(100) {
		row, err := s.Read(t.Context(), id)
		switch {
		case err != nil:
			t.Error(err)
		case bad(id) && (errs[id] == nil || row.Seq != 0), !bad(id) && (errs[id] != nil || row.Seq != 20):
			t.Errorf("%s at %d: %v", id, row.Seq, errs[id])
		}
	}
}
