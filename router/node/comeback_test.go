package node_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// pending makes a stream's row as an application does that has yet to ask for
// the response.
func (r *running) pending(id string) {
	r.tb.Helper()
	driver, source := "sqlite", "file:"+r.sqliteFile()+"?_pragma=busy_timeout(10000)"
	insert := "INSERT INTO streams (id, created_at, updated_at) VALUES ('%s', 1, 1)"
	if r.cfg.Database != "" {
		driver, source, insert = "pgx", r.cfg.Database, "INSERT INTO rillkeep.streams (id) VALUES ('%s')"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(r.tb.Context(), fmt.Sprintf(insert, id)); err != nil {
		r.tb.Fatal(err)
	}
}

func TestAReaderThatIsThereBeforeItsStreamGetsItLive(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Policy: patient(), Limits: router.Limits{DurablePoll: 50 * time.Millisecond}}
	onEachStore(t, cfg, func(t *testing.T, n *running) {
		n.pending("m1")
		r := n.reads("m1", "")
		var text strings.Builder
		r.into = &text
		if f, err := r.next(); err != nil || f.Kind != plane.KindOpen || f.Seq != 0 {
			t.Fatalf("%+v, %v", f, err)
		}
		n.open("m1")
		pos, want := int64(0), ""
		for i := range 50 { // nothing of it is durable
			delta := fmt.Sprintf("%d😀 ", i)
			pos, want = n.push("m1", pos, delta), want+delta
			if err := r.until(pos); err != nil {
				t.Fatal(err)
			}
		}
		if snap := n.snapshot("m1"); snap.DurableSeq != 0 {
			t.Errorf("durable %d", snap.DurableSeq)
		}
		n.seal("m1")
		if err := r.rest(); err != nil || text.String() != want || r.end.Kind != plane.KindEnd || r.end.Seq != pos {
			t.Errorf("%q, %+v, %v", text.String(), r.end, err)
		}
	})
}

// A reader that lags is sent to the durable plane, as it would be by another
// node, and back.
func TestAReaderThatFellBehindIsLiveAgainWhenItHasCaughtUp(t *testing.T) {
	t.Parallel()
	policy := patient()
	policy.MaxLag = 10_000
	cfg := node.Config{Policy: policy, Limits: router.Limits{DurablePoll: 50 * time.Millisecond}}
	onEachStore(t, cfg, func(t *testing.T, n *running) {
		n.pending("m1")
		early := n.reads("m1", "") // which has come from the durable plane already
		n.open("m1")
		want := words(2000)
		pos := n.push("m1", 0, want)
		n.flush("m1")
		late := n.reads("m1", "")
		readers := map[string]*reader{"early": early, "late": late}
		texts := map[string]*strings.Builder{"early": {}, "late": {}}
		for name, r := range readers {
			r.into = texts[name]
			if err := r.until(pos); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for i := range 50 {
			delta := fmt.Sprintf("live %d ", i)
			pos, want = n.push("m1", pos, delta), want+delta
			for name, r := range readers {
				if err := r.until(pos); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if snap := n.snapshot("m1"); snap.DurableSeq == snap.Seq {
			t.Error("all of it is durable")
		}
		n.seal("m1")
		for name, r := range readers {
			// The transcript knows that no text and no open came twice.
			if err := r.rest(); err != nil || texts[name].String() != want || r.end.Seq != pos {
				t.Errorf("%s: %d bytes of %d, %+v, %v", name, texts[name].Len(), len(want), r.end, err)
			}
		}
	})
}

// Both planes would send it to the other.
func TestAReaderTooFarBehindForTheLivePlaneWaitsForTheStore(t *testing.T) {
	t.Parallel()
	policy := impatient()
	policy.MaxLag = 1000
	n := openNode(t, node.Config{Database: pgtest.URL(t), Policy: policy, Limits: router.Limits{DurablePoll: 50 * time.Millisecond, Ping: 100 * time.Millisecond}})
	n.open("m1")
	release := n.block()
	want := words(1000)
	n.push("m1", 0, want)
	s := n.dial()
	s.get("HTTP/1.1", "/v1/streams/m1")
	s.head()
	for pings := 0; pings < 5; { // it is not too busy for that
		if s.line() == ": ping\n" {
			pings++
		}
	}
	_ = s.conn.Close()
	await(t, "it is gone", func() bool { return n.metrics()["rillkeep_readers"] == 0 })
	r := n.reads("m1", "")
	release()
	var text strings.Builder
	r.into = &text
	if err := r.until(plane.Units(want)); err != nil || text.String() != want {
		t.Errorf("%d bytes of %d, %v", text.Len(), len(want), err)
	}
	n.seal("m1")
	if err := r.rest(); err != nil {
		t.Error(err)
	}
}

// The reader has a place in the text that retention has deleted.
func TestAReaderThatComesBackToADeletedIDGetsItsNewTextWhole(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Database: pgtest.URL(t), Linger: time.Millisecond, Retention: 500 * time.Millisecond})
	n.whole("m1", "hello world")
	await(t, "it is deleted", func() bool { return n.do(http.MethodGet, path("m1"), "").status == http.StatusNotFound })
	n.whole("m1", "good-bye all")
	r := n.reads("m1", "", "Last-Event-ID", "5")
	var text strings.Builder
	r.into = &text
	if err := r.rest(); err != nil || text.String() != "good-bye all" {
		t.Errorf("%q, %v", text.String(), err)
	}
}
