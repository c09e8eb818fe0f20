package node_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// rowOf returns a stream as its row has it, whatever is in memory.
func (r *running) rowOf(id string) wire.Stream {
	r.tb.Helper()
	page, err := r.client.List(r.tb.Context(), client.Query{Prefix: id, Limit: 1})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].StreamID != id {
		r.tb.Fatalf("row of %q: %+v, %v", id, page, err)
	}
	return page.Streams[0]
}

func TestAFailedSealIsMadeGoodWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: failing(), Linger: 100 * time.Millisecond}, func(t *testing.T, n *running) {
		n.open("m1")
		r := n.reads("m1", "")
		n.push("m1", 0, "abc")
		if err := r.until(3); err != nil {
			t.Fatal(err)
		}
		release := n.block()
		wantError(t, "close", n.do(http.MethodPost, path("m1", "close"), ""), http.StatusServiceUnavailable, "not_durable")
		if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted || r.end.Seq != 0 {
			t.Errorf("the reader was told %+v, %v", r.end, err)
		}
		// Nobody writes other text under the same epoch meanwhile (S).
		wantError(t, "open", n.do(http.MethodPost, path("m1"), ""), http.StatusConflict, "open_here")
		release()
		await(t, "the row has ended (L)", func() bool { return n.rowOf("m1").Status == plane.StatusInterrupted })
		await(t, "the name is free", n.retired)
		wantEnding(t, n, "m1", plane.StatusInterrupted, "abc")
		wantError(t, "open again", n.do(http.MethodPost, path("m1"), ""), http.StatusConflict, "exists")
		if a := n.do(http.MethodGet, path("m1"), "", "Last-Event-ID", "3"); a.status != http.StatusNoContent {
			t.Errorf("who has it all: %d %s", a.status, a.body)
		}
	})
}

// An application's transaction holds the row for longer than a store's call asks
// for it.
func TestACloseWaitsForALockedRow(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.Retries = 0
	n := openNode(t, node.Config{Database: pgtest.URL(t), Policy: policy})
	n.open("m1")
	r := n.reads("m1", "")
	n.push("m1", 0, "abc")
	n.flush("m1")
	release := n.exclusively("BEGIN; SELECT FROM rillkeep.streams WHERE id = 'm1' FOR UPDATE", "ROLLBACK")
	closed := make(chan answer, 1)
	go func() {
		a, err := n.try(context.WithoutCancel(t.Context()), http.MethodPost, path("m1", "close"), "")
		if err != nil {
			t.Error(err)
		}
		closed <- a
	}()
	select {
	case a := <-closed:
		t.Errorf("close answered %d %s while the row was locked", a.status, a.body)
		release()
		return
	case <-time.After(3 * time.Second):
		release()
	}
	if a := <-closed; a.status != http.StatusOK {
		t.Errorf("close answered %d %s", a.status, a.body)
	}
	if err := r.rest(); err != nil || r.end.Status != plane.StatusComplete {
		t.Errorf("the reader was told %+v, %v", r.end, err)
	}
	wantEnding(t, n, "m1", plane.StatusComplete, "abc")
}

// Rows of a text that are gone don't come back: nobody waits for them.
func TestAHoleEndsItsReader(t *testing.T) {
	t.Parallel()
	log := &record{}
	n := openNode(t, node.Config{Database: pgtest.URL(t), Logger: log.logger(), Limits: router.Limits{DurablePoll: 100 * time.Millisecond}})
	n.open("m1")
	n.push("m1", 0, "abc")
	n.flush("m1")
	r := n.reads("m1", "plane=durable")
	if err := r.until(3); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, n.cfg.Database, "UPDATE rillkeep.streams SET seq = 6, status = 'interrupted'")
	if err := r.rest(); err != nil || r.end.Kind != plane.KindAbsent || r.pos != 3 {
		t.Errorf("the reader was told %+v at %d, %v", r.end, r.pos, err)
	}
	if said := log.String(); !strings.Contains(said, "text is missing in the store") {
		t.Errorf("the log says %s", said)
	}
	n.push("m1", 3, "x")
	wantError(t, "flush", n.do(http.MethodPost, path("m1", "flush"), ""), http.StatusServiceUnavailable, "owner_fenced")
	await(t, "the stream is not here", n.retired)
	for what, accept := range map[string]string{"snapshot": "application/json", "read": "text/event-stream"} {
		a := n.do(http.MethodGet, path("m1")+"?plane=durable", "", "Accept", accept)
		wantError(t, what, a, http.StatusInternalServerError, "internal")
	}
}

// An application may delete the row of a stream that goes on.
func TestADeletedRowFreesItsStream(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Database: pgtest.URL(t), Linger: 100 * time.Millisecond})
	for _, noticedBy := range []string{"flush", "close"} {
		n.open("m1")
		r := n.reads("m1", "")
		n.push("m1", 0, "abc")
		n.flush("m1")
		n.push("m1", 3, "def")
		pgtest.Exec(t, n.cfg.Database, "DELETE FROM rillkeep.streams; DELETE FROM rillkeep.chunks")
		wantError(t, noticedBy, n.do(http.MethodPost, path("m1", noticedBy), ""), http.StatusNotFound, "not_found")
		wantError(t, "append", n.do(http.MethodPost, path("m1", "append")+"?from=6", `{"text":"x"}`), http.StatusNotFound, "not_found")
		if err := r.rest(); err != nil || r.end.Kind != plane.KindAbsent {
			t.Errorf("the reader was told %+v, %v", r.end, err)
		}
		await(t, "the name is free", n.retired)
	}
}

func TestTextThatWasLostIsNotContinuedByOther(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: failing(), Database: pgtest.URL(t)})
	n.open("m1")
	n.push("m1", 0, "abc") // which a reader has
	release := n.block()
	wantError(t, "close", n.do(http.MethodPost, path("m1", "close"), ""), http.StatusServiceUnavailable, "not_durable")
	// The node dies before its repair.
	n.http.CloseIdleConnections()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	n.cfg.LeaseTTL, n.cfg.Grace = 2*time.Second, 2*time.Second
	n = openNode(t, n.cfg)
	n.swept("m1")
	opened, err := n.client.Open(t.Context(), "m1", wire.Open{})
	if err != nil || opened.Epoch != 2 || opened.Seq != 0 {
		t.Fatalf("opened again: %+v, %v", opened, err)
	}
	n.push("m1", 0, "XYZdef")
	n.flush("m1")
	for _, p := range []string{"auto", "live", "durable"} {
		r := n.reads("m1", "plane="+p, "Last-Event-ID", "3")
		var text strings.Builder
		r.into = &text
		if err := r.until(6); err != nil || r.from != 0 || text.String() != "XYZdef" {
			t.Errorf("%s: from %d %q, %v", p, r.from, text.String(), err)
		}
	}
}

// failing is a policy that gives up on the store at once, and makes nothing
// durable by itself.
func failing() plane.Policy {
	p := patient()
	p.StoreTimeout, p.Retries, p.SealPatience = 200*time.Millisecond, 0, time.Second
	return p
}

// questions are requests that need the store for an answer.
var questions = map[string][2]string{
	"open":            {http.MethodPost, path("new")},
	"resume":          {http.MethodPost, path("gone")},
	"read":            {http.MethodGet, path("gone")},
	"read durable":    {http.MethodGet, path("live") + "?plane=durable"},
	"snapshot":        {http.MethodGet, path("gone")},
	"snapshot live":   {http.MethodGet, path("live")},
	"come back":       {http.MethodGet, path("gone")},
	"append":          {http.MethodPost, path("gone", "append")},
	"pump":            {http.MethodPost, path("gone", "pump")},
	"flush":           {http.MethodPost, path("gone", "flush")},
	"close":           {http.MethodPost, path("gone", "close")},
	"fail":            {http.MethodPost, path("gone", "fail")},
	"cancel":          {http.MethodPost, path("gone", "cancel")},
	"list":            {http.MethodGet, "/v1/streams"},
	"play the sample": {http.MethodPost, "/demo/streams/sample"},
}

// wantUnavailable asks all questions at once, while there is no store.
func (r *running) wantUnavailable() {
	r.tb.Helper()
	var all sync.WaitGroup
	began := time.Now()
	for name, q := range questions {
		var body string
		var header []string
		switch name {
		case "append":
			body = `{"text":"x"}`
		case "resume":
			body = `{"resume":true}`
		case "snapshot", "snapshot live":
			header = []string{"Accept", "application/json"}
		case "come back":
			header = []string{"Last-Event-ID", "4"}
		}
		all.Go(func() {
			a, err := r.try(r.tb.Context(), q[0], q[1], body, header...)
			if err != nil {
				r.tb.Errorf("%s: %v", name, err)
				return
			}
			wantError(r.tb, name, a, http.StatusServiceUnavailable, "unavailable")
			if a.header.Get("Retry-After") == "" || strings.Contains(a.body, "rillkeep_") {
				r.tb.Errorf("%s: %v %s", name, a.header, a.body)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > patience/2 {
		r.tb.Errorf("the answers took %v", took)
	}
}

// wantWorking fails the test unless the node, which was without its store, gets
// over it.
func (r *running) wantWorking() {
	r.tb.Helper()
	await(r.tb, "the node has its store again", func() bool { return r.do(http.MethodGet, "/readyz", "").status == http.StatusOK })
	r.push("live", 4, " goes on")
	await(r.tb, "the live stream can be sealed", func() bool {
		a := r.do(http.MethodPost, path("live", "flush"), "")
		return a.status == http.StatusOK
	})
	r.seal("live")
	await(r.tb, "a name that was asked for meanwhile is free", func() bool {
		a := r.do(http.MethodPost, path("new"), "")
		return a.status == http.StatusCreated
	})
	r.push("new", 0, "text")
	r.seal("new")
	for id, text := range map[string]string{"gone": "gone", "live": "live goes on", "new": "text"} {
		if got, _ := r.text(id, ""); got != text {
			r.tb.Errorf("%s: %q", id, got)
		}
	}
}

// withoutStore runs a node with a live stream and one that is not in memory any
// more, and takes its database away.
func withoutStore(t *testing.T, take func(t *testing.T, n *running) (giveBack func())) {
	t.Helper()
	policy := impatient()
	policy.CancelGrace = patience // its producer ends what is stopped, when the store is back
	cfg := node.Config{
		Database: pgtest.URL(t), Policy: policy, Linger: time.Millisecond,
		Limits: router.Limits{StoreTime: 500 * time.Millisecond},
	}
	n := openNode(t, cfg)
	n.whole("gone", "gone")
	for _, id := range []string{"live", "stopped"} {
		n.open(id)
		n.push(id, 0, id)
		n.flush(id)
	}
	await(t, "only the live ones are held", func() bool {
		m := n.metrics()
		return m["rillkeep_streams_open"] == 2 && m["rillkeep_streams_lingering"] == 0
	})
	giveBack := take(t, n)
	n.wantUnavailable()
	// A stop needs no store to take effect: the seal will say so.
	if a := n.do(http.MethodPost, path("stopped", "cancel"), ""); a.status != http.StatusAccepted {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	wantError(t, "append after the stop", n.do(http.MethodPost, path("stopped", "append"), `{"text":"x"}`), 409, "cancelled")
	giveBack()
	n.wantWorking()
	n.seal("stopped")
	wantEnding(t, n, "stopped", plane.StatusCancelled, "stopped")
}

func TestRequestsDoNotHangWithTheStore(t *testing.T) {
	t.Parallel()
	withoutStore(t, func(t *testing.T, n *running) func() {
		return n.exclusively("BEGIN; LOCK TABLE rillkeep.streams, rillkeep.chunks IN ACCESS EXCLUSIVE MODE", "ROLLBACK")
	})
}

func TestRequestsAreToldToComeBackWhenTheStoreIsGone(t *testing.T) {
	t.Parallel()
	withoutStore(t, func(t *testing.T, n *running) func() {
		u, err := url.Parse(n.cfg.Database)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(u.Path, "/")
		u.Path = "/postgres"
		server := *n
		server.cfg.Database = u.String()
		return server.exclusively(
			fmt.Sprintf("ALTER DATABASE %[1]s ALLOW_CONNECTIONS false; "+
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%[1]s'", name),
			fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS true", name))
	})
}

// exclusively runs statements on a connection of its own to the node's database,
// and others, on the same one, when undo is called or the test ends.
func (r *running) exclusively(do, undo string) (undone func()) {
	r.tb.Helper()
	ctx := context.WithoutCancel(r.tb.Context())
	db, err := sql.Open("pgx", r.cfg.Database)
	if err != nil {
		r.tb.Fatal(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		r.tb.Fatal(err)
	}
	if _, err := conn.ExecContext(ctx, do); err != nil {
		r.tb.Fatal(err)
	}
	var once sync.Once
	undone = func() {
		once.Do(func() {
			if _, err := conn.ExecContext(ctx, undo); err != nil {
				r.tb.Error(err)
			}
			_ = conn.Close()
			_ = db.Close()
		})
	}
	r.tb.Cleanup(undone)
	return undone
}

func TestAnAppendWaitsForRoomAsLongAsForABody(t *testing.T) {
	t.Parallel()
	policy := impatient()
	policy.MaxOutstanding = 10
	onEachStore(t, node.Config{Policy: policy, Limits: router.Limits{BodyTime: 300 * time.Millisecond}}, func(t *testing.T, n *running) {
		n.open("m1")
		release := n.block()
		n.push("m1", 0, strings.Repeat("a", 10))
		for _, query := range []string{"?from=10", ""} {
			a := n.do(http.MethodPost, path("m1", "append")+query, `{"text":"b"}`)
			wantError(t, "append"+query, a, http.StatusServiceUnavailable, "unavailable")
			if a.header.Get("Retry-After") == "" {
				t.Errorf("append%s: no Retry-After", query)
			}
		}
		if snap := n.snapshot("m1"); snap.Seq != 10 {
			t.Errorf("what was refused was taken: %+v", snap)
		}
		release()
		await(t, "there is room", func() bool {
			a := n.do(http.MethodPost, path("m1", "append")+"?from=10", `{"text":"b"}`)
			return a.status == http.StatusOK
		})
		n.seal("m1")
		wantEnding(t, n, "m1", plane.StatusComplete, "aaaaaaaaaab")
	})
}
