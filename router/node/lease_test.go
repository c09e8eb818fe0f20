package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// brief is a node of a database with a lease that tests can wait for.
func brief(database, name string) node.Config {
	return node.Config{Database: database, Name: name, LeaseTTL: 2 * time.Second, Grace: 2 * time.Second}
}

// count is what a query of one number answers.
func (r *running) count(query string) (n int) {
	r.tb.Helper()
	db, query := r.sharedDB(query)
	defer db.Close()
	if err := db.QueryRowContext(r.tb.Context(), query).Scan(&n); err != nil {
		r.tb.Fatal(err)
	}
	return n
}

// lasting is how many leases of a node last.
func (r *running) lasting(name string) int {
	r.tb.Helper()
	now := "now()"
	if r.cfg.Database == "" {
		now = fmt.Sprint(time.Now().UnixMicro())
	}
	return r.count(fmt.Sprintf("SELECT count(*) FROM rillkeep.nodes WHERE name = '%s' AND expires_at > %s", name, now))
}

// restartBriefly is restart, with a sweeper that tests can wait for.
func (r *running) restartBriefly() *running {
	r.tb.Helper()
	r.cfg.LeaseTTL, r.cfg.Grace = 2*time.Second, 2*time.Second
	return r.restart()
}

// swept waits until the sweeper has ended a stream.
func (r *running) swept(id string) {
	r.tb.Helper()
	await(r.tb, id+" is swept", func() bool { return r.snapshot(id).Status.Ended() })
}

func TestTheStreamsOfANodeThatDiedAreSealedByAnother(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		dies, lives := openNode(t, in(brief("", "dies"))), openNode(t, in(brief("", "lives")))
		want := make(map[string]string)
		for i := range 30 {
			id := fmt.Sprintf("m%02d", i)
			dies.open(id)
			pos := int64(0)
			for n := range i {
				delta := fmt.Sprintf("checkpoint %d 😀, ", n)
				pos = dies.push(id, pos, delta)
				want[id] += delta
				dies.flush(id)
			}
			dies.push(id, pos, "and what was not durable")
		}
		lives.open("live")
		pos := lives.push("live", 0, "not a word ")
		lives.flush("live")
		dies.http.CloseIdleConnections()
		if err := dies.Close(); err != nil { // with no word to the database
			t.Fatal(err)
		}
		await(t, "no row of the dead one says streaming (L)", func() bool {
			page, err := lives.client.List(t.Context(), client.Query{Status: string(plane.StatusStreaming), Prefix: "m"})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Streams) == 0
		})
		for i := range 30 {
			id := fmt.Sprintf("m%02d", i)
			snap := lives.snapshot(id)
			// The checkpoint of the last delta may have been on its way.
			if snap.Status != plane.StatusInterrupted || !strings.HasPrefix(snap.Text, want[id]) || !strings.HasPrefix(want[id]+"and what was not durable", snap.Text) {
				t.Errorf("%s is %s: %q, want %q", id, snap.Status, snap.Text, want[id])
			}
			wantEnding(t, lives, id, plane.StatusInterrupted, snap.Text)
		}
		// Those whose answer came after the term that the sweep began in are not counted.
		await(t, "they are counted, when the sweep has ended", func() bool { return lives.metrics()["rillkeep_streams_swept_total"] > 0 })
		if held := lives.metrics()["rillkeep_lease_held"]; held != 1 {
			t.Errorf("lease %v", held)
		}
		lives.push("live", pos, "is lost")
		lives.seal("live")
		wantEnding(t, lives, "live", plane.StatusComplete, "not a word is lost")
	})
}

func TestANodeWithoutALeaseClaimsNothingAndGoesOnWhenItHasOne(t *testing.T) {
	t.Parallel()
	cfg := brief(pgtest.URL(t), "n1")
	cfg.Policy = impatient()
	n := openNode(t, cfg)
	n.open("m1")
	pos := n.push("m1", 0, "durable, ")
	n.flush("m1")
	r := n.reads("m1", "")
	release := n.exclusively("BEGIN; LOCK TABLE rillkeep.nodes IN ACCESS EXCLUSIVE MODE", "ROLLBACK") // the streams' tables are free
	await(t, "the node is not ready", func() bool {
		a := n.do(http.MethodGet, "/readyz", "")
		return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "lease")
	})
	a := n.do(http.MethodPost, path("m2"), "")
	wantError(t, "open", a, http.StatusServiceUnavailable, "unavailable")
	if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "lease") {
		t.Errorf("open: %v %s", a.header, a.body)
	}
	if n.count("SELECT count(*) FROM rillkeep.streams") != 1 {
		t.Error("it opened a stream")
	}
	pos = n.push("m1", pos, "in memory, ")
	if err := r.until(pos); err != nil { // readers notice nothing
		t.Error(err)
	}
	wantError(t, "flush", n.do(http.MethodPost, path("m1", "flush"), ""), http.StatusServiceUnavailable, "not_durable")
	if snap := n.snapshot("m1"); snap.DurableSeq != 9 || snap.Seq != pos {
		t.Errorf("durable %d of %d", snap.DurableSeq, snap.Seq)
	}
	if m := n.metrics(); m["rillkeep_lease_held"] != 0 || m["rillkeep_lease_renewals_failed_total"] == 0 {
		t.Errorf("held %v, failed %v", m["rillkeep_lease_held"], m["rillkeep_lease_renewals_failed_total"])
	}
	release()
	await(t, "the node is ready", func() bool { return n.do(http.MethodGet, "/readyz", "").status == http.StatusOK })
	await(t, "its text is durable by itself", func() bool { return n.snapshot("m1").DurableSeq == pos })
	n.open("m2")
	n.push("m1", pos, "and done.")
	n.seal("m1")
	if err := r.rest(); err != nil || r.end.Status != plane.StatusComplete {
		t.Errorf("%+v, %v", r.end, err)
	}
	wantEnding(t, n, "m1", plane.StatusComplete, "durable, in memory, and done.")
}

func TestALeaseEndsWithItsNodesDrainAndOutlivesItsDeath(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		other := openNode(t, in(brief("", "other")))
		const leases = "SELECT count(*) FROM rillkeep.nodes WHERE name = 'n1' AND http_addr = '%s'"
		for drained, want := range map[bool]int{true: 0, false: 1} {
			n := openNode(t, in(node.Config{Name: "n1"}))
			mine := fmt.Sprintf(leases, n.Addr())
			if got := other.count(mine); got != 1 {
				t.Errorf("a running node has %d leases", got)
			}
			if got := other.lasting("n1"); got != 1 {
				t.Errorf("with its earlier run it has %d", got)
			}
			n.open(fmt.Sprint("m", drained))
			n.http.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stop := n.Close
			if drained {
				stop = func() error { return n.Drain(ctx) }
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := other.count(mine); got != want {
				t.Errorf("drained %v: %d leases are left, want %d", drained, got, want)
			}
		}
	})
}

func TestOldStreamsAreDeletedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		cfg := in(brief("", "n1"))
		cfg.Retention, cfg.Linger = time.Second, time.Millisecond
		n := openNode(t, cfg)
		n.open("live")
		n.push("live", 0, "stays")
		n.whole("old", "goes")
		await(t, "the old one is gone", func() bool {
			return n.do(http.MethodGet, path("old"), "").status == http.StatusNotFound
		})
		n.flush("live")
		await(t, "it is counted, when the call has ended", func() bool { return n.metrics()["rillkeep_streams_deleted_total"] == 1 })
		n.whole("old", "a new one")
	})
}

// What a node left when it died is its producers' from the next start on, and not
// from the end of its lease: the name proves that it is dead.
func TestWhatADeadNodeLeftCanBeTakenOverAtItsNextStart(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		n, other := openNode(t, in(node.Config{Name: "n1"})), openNode(t, in(brief("", "n2")))
		n.open("m1")
		n.push("m1", 0, "durable")
		n.flush("m1")
		n.http.CloseIdleConnections()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		s := other.beside()
		row, err := s.Read(t.Context(), "m1")
		if err != nil {
			t.Fatal(err)
		}
		claim := plane.Claim{ID: "m1", Node: "n3/boot1"}
		if _, err := s.TakeOver(t.Context(), row.Token, claim); !errors.Is(err, plane.ErrHeld) {
			t.Errorf("before: %v", err)
		}
		openNode(t, n.cfg)
		next, err := s.TakeOver(t.Context(), row.Token, claim)
		if err != nil || next.Token != "n3/boot1/2/7" || next.Status != plane.StatusStreaming {
			t.Errorf("after: %+v, %v", next, err)
		}
	})
}

// beside is another way to the node's store.
func (r *running) beside() store.Store {
	r.tb.Helper()
	var s store.Store
	var err error
	if r.cfg.Database == "" {
		s, err = sqlite.Open(r.tb.Context(), r.sqliteFile(), sqlite.Config{})
	} else {
		s, err = postgres.Open(r.tb.Context(), r.cfg.Database, postgres.Config{})
	}
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}
