package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

// ear gives what a listener is told to a test.
type ear chan string

func (e ear) Connected()          { e <- "connected" }
func (e ear) Message(text string) { e <- text }
func (e ear) Lost(err error)      { e <- fmt.Sprint("lost: ", err) }

// next returns what the listener is told next.
func (e ear) next(t *testing.T) string {
	t.Helper()
	select {
	case told := <-e:
		return told
	case <-time.After(time.Minute):
		t.Fatal("nothing is heard")
		return ""
	}
}

// silent fails the test if the listener was told something, before a message that is
// sent now.
func (e ear) silent(t *testing.T, s SharedStore) {
	t.Helper()
	if err := s.Notify(bounded(t), []string{"and that was all"}); err != nil {
		t.Fatal(err)
	}
	equal(t, e.next(t), "and that was all")
}

// listens makes a store listen until the test ends.
func listens(t *testing.T, s SharedStore) ear {
	t.Helper()
	e := make(ear, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Listen(ctx, e) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	equal(t, e.next(t), "connected")
	return e
}

// twoNodes are two stores of nodes that have leases: those tell each other.
func twoNodes(t *testing.T, db Database) (first, second SharedStore) {
	steady(db, runOf("n1"))
	steady(db, runOf("n2"))
	return db.Open(t), db.Open(t)
}

func feedMessages(t *testing.T, db Database) {
	first, second := twoNodes(t, db)
	ears := []ear{listens(t, first), listens(t, second)}
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
			if told := e.next(t); told != message {
				t.Fatalf("heard %.20s… of %d bytes, want %.20s…", told, len(told), message)
			}
		}
	}
	if err := first.Notify(bounded(t), []string{"fits", strings.Repeat("x", feed.MaxMessage+1)}); err == nil {
		t.Error("a message of 8,000 bytes was sent")
	}
	for _, e := range ears {
		e.silent(t, first) // all or none
		for _, other := range ears {
			if e != other {
				equal(t, other.next(t), "and that was all")
			}
		}
	}
}

func feedCancel(t *testing.T, db Database) {
	s, _ := twoNodes(t, db)
	const id = `a "quoted" \ 漢 id`
	row := written(t, s, "n1", id, "abc")
	written(t, s, "n1", "other")
	e := listens(t, s)
	db.Cancel(id)
	said, err := feed.Parse(e.next(t))
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
	e.silent(t, s)
	must(s.Cancel(bounded(t), "other"))(t)
	if said, err := feed.Parse(e.next(t)); err != nil || said.Changes[0].ID != "other" {
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
