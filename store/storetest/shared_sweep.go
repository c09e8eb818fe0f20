package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

func sweepGrace(t *testing.T, db Database) {
	s := db.Open(t)
	for id, host := range map[string]string{
		"live": "n1/boot1", "idle": "n1/boot1", "dead": "n2/boot1", "late": "n3/boot1", "unknown": "n4/boot1", "fresh": "n5/boot1",
		"another boot": "n1/boot0", "longer": "n1/boot1x", "similar": "n1/boot1-", "nobody": "", "odd": "odd", "slash": "odd/",
	} {
		db.Edit(id, func(r *Row) {
			r.Status, r.Epoch, r.Seq, r.Chunks = plane.StatusStreaming, 1, 3, []plane.Chunk{{Seq: 3, Text: "x😀"}}
			if r.Token = host; strings.Count(host, "/") == 1 && host != "odd/" {
				r.Token += "/1"
			}
			if id != "live" && id != "dead" && id != "fresh" {
				r.Updated = time.Now().Add(-time.Minute)
			}
		})
	}
	steady(db, runOf("n1"))
	over(db, runOf("n2"))
	db.EditLease(runOf("n3"), func(l *Lease) { l.Expires = time.Now().Add(-10 * time.Second) })
	swept(t, db, s, 8)
	swept(t, db, s, 0)
	for _, id := range []string{"live", "idle", "late", "fresh"} {
		wantStream(t, s, id, plane.StatusStreaming, "x😀")
	}
	for _, id := range []string{"dead", "unknown", "another boot", "longer", "similar", "nobody", "odd", "slash"} {
		wantStream(t, s, id, plane.StatusInterrupted, "x😀")
	}
	aged(db, "fresh")
	over(db, runOf("n3"))
	swept(t, db, s, 2)
}

func sweepText(t *testing.T, db Database) {
	s := db.Open(t)
	texts := map[string]string{"empty": "", "short": "a", "long": strings.Repeat("of many 😀 checkpoints ", 5000)}
	for id, text := range texts {
		var slices []string
		for rest := text; rest != ""; rest = rest[len(slices[len(slices)-1]):] {
			slices = append(slices, rest[:plane.Cut(rest, 5000)])
		}
		written(t, s, "n1", id, slices...)
	}
	written(t, s, "n1", "holed", "abc", "def")
	db.Edit("holed", func(r *Row) { r.Chunks = r.Chunks[1:] })
	over(db, runOf("n1"))
	swept(t, db, s, 4)
	for id, text := range texts {
		wantStream(t, s, id, plane.StatusInterrupted, text)
		stored, _ := db.Row(id)
		if stored.Body != text || len(stored.Chunks) != 0 || stored.Ended.IsZero() || stored.HasError {
			t.Errorf("%s has a body of %d bytes and %d chunks, ended %v", id, len(stored.Body), len(stored.Chunks), stored.Ended)
		}
		slice := plane.Slice{ID: id, Token: stored.Token, From: stored.Seq, Seq: stored.Seq + 1, Text: "x"}
		equal(t, must(s.Append(bounded(t), slice))(t).Status, plane.StatusInterrupted)
		seal := plane.Seal{ID: id, Token: stored.Token, Status: plane.StatusComplete, Seq: 1, Text: "x"}
		equal(t, sealed(t, s, seal).Status, plane.StatusInterrupted)
		wantStream(t, s, id, plane.StatusInterrupted, text)
	}
	row := must(s.Read(bounded(t), "holed"))(t)
	equal(t, row.Status, plane.StatusInterrupted)
	equal(t, row.Seq, 0)
	if !strings.Contains(row.Error, "deleted by others") {
		t.Errorf("the error of a text with a hole is %q", row.Error)
	}
	if stored, _ := db.Row("holed"); len(stored.Chunks) != 1 {
		t.Errorf("of the text with a hole %d pieces are left", len(stored.Chunks))
	}
}

func sweepTogether(t *testing.T, db Database) {
	stores := []SharedStore{db.Open(t), db.Open(t), db.Open(t)}
	const streams = 60
	for n := range streams {
		written(t, stores[0], "n1", fmt.Sprint("s", n), "abc", "abc")
	}
	over(db, runOf("n1"))
	steady(db, sweeper)
	counts, errs := make([]int, len(stores)), make([]error, len(stores))
	ctx := bounded(t)
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() { counts[i], errs[i] = s.Sweep(ctx, sweeper, grace) })
	}
	all.Wait()
	sum := 0
	for i, n := range counts {
		if sum += n; errs[i] != nil {
			t.Error(errs[i])
		}
	}
	equal(t, sum, streams)
	for n := range streams {
		wantStream(t, stores[0], fmt.Sprint("s", n), plane.StatusInterrupted, "abcabc")
	}
}

// The owner was only slow: the first to have the row wins, and the other is told.
func sweepAndSeal(t *testing.T, db Database) {
	owner, other := db.Open(t), db.Open(t)
	const streams = 100
	rows := make([]plane.Row, streams)
	for n := range rows {
		rows[n] = written(t, owner, "n1", fmt.Sprint("s", n), "abc")
	}
	over(db, runOf("n1"))
	steady(db, sweeper)
	ends := make([]plane.Row, streams)
	count := 0
	ctx := bounded(t)
	var both sync.WaitGroup
	both.Go(func() {
		for n := range ends {
			var err error
			ends[n], err = owner.Seal(ctx, plane.Seal{
				ID: fmt.Sprint("s", n), Token: rows[n].Token, Status: plane.StatusComplete, From: 3, Seq: 6, Text: "abcdef",
			})
			if err != nil {
				t.Errorf("seal of s%d: %v", n, err)
			}
		}
	})
	both.Go(func() {
		for range 20 { // what was locked is swept in the next round
			n, err := other.Sweep(ctx, sweeper, grace)
			if count += n; err != nil {
				t.Error(err)
			}
		}
	})
	both.Wait()
	interrupted := 0
	for n, row := range ends {
		text := "abcdef"
		if row.Status == plane.StatusInterrupted {
			text = "abc"
			interrupted++
		}
		wantStream(t, owner, fmt.Sprint("s", n), row.Status, text)
	}
	equal(t, interrupted, count)
}

// The grace is counted from the end of the lease, as a restart makes it, and not from
// the last change of a row.
func sweepSuperseded(t *testing.T, db Database) {
	s := db.Open(t)
	row := written(t, s, "n1", "s", "abc")
	aged(db, "s")
	if _, err := s.Renew(bounded(t), runOf("n1"), time.Hour); err != nil {
		t.Fatal(err)
	}
	supersede(t, s, "n1", "boot2")
	swept(t, db, s, 0)
	equal(t, must(s.Read(bounded(t), "s"))(t), row)
	over(db, runOf("n1"))
	supersede(t, s, "n1", "boot3") // which makes it no shorter
	swept(t, db, s, 1)
	wantStream(t, s, "s", plane.StatusInterrupted, "abc")
}

func deleteOld(t *testing.T, db Database) {
	s := db.Open(t)
	row := func(id string, status plane.Status, age time.Duration) {
		db.Edit(id, func(r *Row) {
			r.Status, r.Seq, r.Body, r.Epoch = status, 1, "x", 1
			if r.Updated = time.Now().Add(-age); status.Ended() {
				r.Ended = r.Updated
			}
		})
	}
	for n := range 250 {
		row(fmt.Sprint("old", n), plane.StatusComplete, 48*time.Hour)
	}
	for n := range 10 {
		row(fmt.Sprint("new", n), plane.StatusComplete, 2*time.Hour)
	}
	row("live", plane.StatusStreaming, 9*24*time.Hour)
	row("pending", plane.StatusPending, 9*24*time.Hour)
	db.Edit("old7", func(r *Row) { r.Chunks = []plane.Chunk{{Seq: 1, Text: "x"}} })
	equal(t, must(s.DeleteEnded(bounded(t), 24*time.Hour))(t), 250)
	equal(t, must(s.DeleteEnded(bounded(t), 24*time.Hour))(t), 0)
	if left, _ := db.Row("old7"); len(left.Chunks) > 0 {
		t.Error("chunks are left of it")
	}
	for _, id := range []string{"new0", "new9", "live", "pending"} {
		if _, ok := db.Row(id); !ok {
			t.Errorf("%s is gone", id)
		}
	}
}

// Who has a place in the text before, or the token of it, has none in the new one.
func deleteEpoch(t *testing.T, db Database) {
	s := db.Open(t)
	db.Edit("higher", func(r *Row) { r.Epoch = 6 })
	last := map[string]int64{}
	for range 3 {
		for _, id := range []string{"higher", "s", "the application's"} {
			if id == "the application's" {
				db.Edit(id, func(*Row) {})
			}
			row := must(s.Open(bounded(t), plane.Claim{ID: id, Node: node}))(t)
			if row.Epoch <= last[id] || row.Token != fmt.Sprintf("%s/%d", node, row.Epoch) {
				t.Errorf("%s after %d: %+v", id, last[id], row)
			}
			last[id] = row.Epoch
			sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, Seq: 1, Text: "x"})
			db.Edit(id, func(r *Row) { r.Ended = time.Now().Add(-48 * time.Hour) })
		}
		equal(t, must(s.DeleteEnded(bounded(t), 24*time.Hour))(t), 3)
	}
}
