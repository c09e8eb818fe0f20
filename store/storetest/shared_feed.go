package storetest

import (
	"fmt"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/feed/feedtest"
)

// twoNodes are two stores of nodes that have leases: those tell each other.
func twoNodes(t *testing.T, db Database) (first, second SharedStore) {
	steady(db, runOf("n1"))
	steady(db, runOf("n2"))
	return db.Open(t), db.Open(t)
}

func feedMessages(t *testing.T, db Database) {
	first, second := twoNodes(t, db)
	ears := []feedtest.Ear{feedtest.Listens(t, first), feedtest.Listens(t, second)}
	want := []string{"one", "two", strings.Repeat("x", feed.MaxMessage), strings.Repeat("漢", feed.MaxMessage/3)}
	for range 200 {
		want = append(want, fmt.Sprint("message ", len(want)))
	}
	for rest := want; len(rest) > 0; rest = rest[4:] {
		if err := first.Notify(bounded(t), rest[:4]); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range ears {
		for _, message := range want {
			if told := e.Next(t); told != message {
				t.Fatalf("heard %.20s… of %d bytes, want %.20s…", told, len(told), message)
			}
		}
	}
	if err := first.Notify(bounded(t), []string{"fits", strings.Repeat("x", feed.MaxMessage+1)}); err == nil {
		t.Error("a message of 8,000 bytes was sent")
	}
	for _, e := range ears {
		e.Silent(t, first) // all or none
		for _, other := range ears {
			if e != other {
				equal(t, other.Next(t), "and that was all")
			}
		}
	}
}

func feedCancel(t *testing.T, db Database) {
	s, _ := twoNodes(t, db)
	const id = `a "quoted" \ 漢 id`
	row := written(t, s, "n1", id, "abc")
	written(t, s, "n1", "other")
	e := feedtest.Listens(t, s)
	db.Cancel(id)
	said, err := feed.Parse(e.Next(t))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, said, feed.Envelope{Changes: []feed.Change{{ID: id, Seq: 3, Epoch: 1, Cancel: true}}})
	db.Cancel(id) // it is
	must(s.Append(bounded(t), plane.Slice{ID: id, Token: row.Token, From: 3, Seq: 4, Text: "d"}))(t)
	db.Edit("pending", func(*Row) {})
	db.Cancel("pending")
	written(t, s, "n1", "pending") // learns of it by itself
	sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, Seq: 4, Text: "abcd"})
	db.Cancel(id) // it has ended
	e.Silent(t, s)
	must(s.Cancel(bounded(t), "other"))(t)
	if said, err := feed.Parse(e.Next(t)); err != nil || said.Changes[0].ID != "other" {
		t.Errorf("said %+v, %v", said, err)
	}
}

func feedCancelled(t *testing.T, db Database) {
	s := db.Open(t)
	row := func(id, token string, status plane.Status, cancel bool) {
		db.Edit(id, func(r *Row) { r.Token, r.Status, r.Cancel = token, status, cancel })
	}
	for n := range 60 {
		row(fmt.Sprintf("s%02d", n), fmt.Sprint("n1/boot1/", n), plane.StatusStreaming, n%2 == 0)
	}
	row("other boot", "n1/boot12/1", plane.StatusStreaming, true)
	row("other node", "n11/boot1/1", plane.StatusStreaming, true)
	row("ended", "n1/boot1/1", plane.StatusInterrupted, true)
	row("pending", "", plane.StatusPending, true)
	row("nobody's", "", plane.StatusStreaming, true)
	ids := must(s.Cancelled(bounded(t), "n1/boot1"))(t)
	if len(ids) != 30 || ids[0] != "s00" || ids[29] != "s58" {
		t.Errorf("%d ids: %q", len(ids), ids)
	}
	equal(t, len(must(s.Cancelled(bounded(t), "n2/boot1"))(t)), 0)
}
