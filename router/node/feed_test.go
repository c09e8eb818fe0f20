package node_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// told are limits of a node whose followers look when they are told to, and
// never by themselves.
func told() router.Limits {
	return router.Limits{DurablePoll: time.Hour, FeedPoll: time.Hour}
}

// twoNodes opens two nodes of one database, which hear each other.
func twoNodes(t *testing.T, cfg node.Config) (one, other *running) {
	t.Helper()
	if cfg.Database == "" {
		cfg.Database = pgtest.URL(t)
	}
	one = openNode(t, cfg)
	cfg.Name = "n2"
	other = openNode(t, cfg)
	if cfg.DirectDatabase == "" {
		for _, n := range []*running{one, other} {
			await(t, "the node listens", func() bool { return n.listeners() == 2 })
		}
	}
	return one, other
}

// sql runs a statement in the node's database, past the node.
func (r *running) sql(statement string, args ...any) {
	r.tb.Helper()
	db := r.db()
	defer db.Close()
	if _, err := db.ExecContext(r.tb.Context(), statement, args...); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *running) db() *sql.DB {
	r.tb.Helper()
	db, err := sql.Open("pgx", r.cfg.Database)
	if err != nil {
		r.tb.Fatal(err)
	}
	return db
}

// listeners counts the connections that listen in the node's database.
func (r *running) listeners() (n int) {
	r.tb.Helper()
	db := r.db()
	defer db.Close()
	err := db.QueryRowContext(r.tb.Context(), `
		SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rillkeep listener' AND state = 'idle' AND query <> ''`).Scan(&n)
	if err != nil {
		r.tb.Fatal(err)
	}
	return n
}

// cutListeners ends the connections that listen.
func (r *running) cutListeners() {
	r.tb.Helper()
	r.sql(`SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rillkeep listener'`)
}

func TestAFollowerOfDurableTextIsToldOfEachAdvance(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient(), Limits: told()}, func(t *testing.T, n *running) {
		n.open("m1")
		r := n.reads("m1", "plane=durable")
		pos := int64(0)
		for range 20 {
			pos = n.push("m1", pos, "some text ")
			n.flush("m1")
			if err := r.until(pos); err != nil {
				t.Fatal(err)
			}
		}
		n.seal("m1")
		if err := r.rest(); err != nil || r.end.Kind != plane.KindEnd || r.end.Seq != pos {
			t.Errorf("%+v, %v", r.end, err)
		}
	})
}

func TestAReaderThatWaitsForItsStreamIsToldOfItsOpening(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient(), Limits: told()}, func(t *testing.T, n *running) {
		n.pending("m1")
		r := n.reads("m1", "")
		if f, err := r.next(); err != nil || f.Kind != plane.KindOpen {
			t.Fatalf("%+v, %v", f, err)
		}
		n.open("m1")
		if err := r.until(n.push("m1", 0, "live")); err != nil {
			t.Error(err)
		}
	})
}

func TestACancelThatNobodyAnnouncesReachesAQuietStream(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(owner *running){
		"by plain SQL that nobody announces": func(owner *running) {
			owner.sql("ALTER TABLE rillkeep.streams DISABLE TRIGGER announce_cancel")
			owner.sql("UPDATE rillkeep.streams SET cancel = true WHERE id = 'm1'")
		},
		"by plain SQL while nobody listens": func(owner *running) {
			owner.sql("ALTER TABLE rillkeep.streams DISABLE TRIGGER announce_cancel")
			owner.sql("UPDATE rillkeep.streams SET cancel = true WHERE id = 'm1'")
			owner.cutListeners()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner, _ := twoNodes(t, node.Config{Policy: patient()})
			owner.stopsQuiet(func() { cancel(owner) })
		})
	}
}

func TestACancelOfAnEarlierEpochIsNotOfThisOne(t *testing.T) {
	t.Parallel()
	owner, other := twoNodes(t, node.Config{Policy: patient(), Limits: told()})
	owner.open("m1")
	say := func(epoch int) {
		t.Helper()
		owner.sql("SELECT pg_notify('rillkeep', $1)", fmt.Sprintf(`{"changes":[{"id":"m1","seq":0,"epoch":%d,"cancel":true}]}`, epoch))
	}
	before := owner.metrics()["rillkeep_feed_received_total"]
	say(7)
	await(t, "it was heard", func() bool { return owner.metrics()["rillkeep_feed_received_total"] > before })
	owner.push("m1", 0, "goes on")
	say(1)
	await(t, "the stream was asked to stop", func() bool {
		a := owner.do(http.MethodPost, path("m1", "append")+"?from=7", `{"text":"x"}`)
		return a.err().Code == "cancelled"
	})
	if got := other.metrics()["rillkeep_feed_malformed_total"]; got != 0 {
		t.Errorf("%v messages were not understood", got)
	}
}

func TestAListenerThatIsCutLosesNothing(t *testing.T) {
	t.Parallel()
	log := &record{}
	one, other := twoNodes(t, node.Config{Policy: eager(), Limits: told(), Logger: log.logger()})
	var followers []func() string
	const streams = 20
	for n := range streams {
		id := fmt.Sprint("m", n)
		one.open(id)
		followers = append(followers, other.watch(id, "plane=durable"))
	}
	produced := make(chan string)
	go func() {
		defer close(produced)
		var all sync.WaitGroup
		for n := range streams {
			all.Go(func() {
				pos := int64(0)
				for i := range 60 {
					ack, err := one.client.Append(t.Context(), fmt.Sprint("m", n), pos, fmt.Sprintf("%d of %d ", i, n))
					if err != nil {
						t.Error(err)
						return
					}
					pos = ack.Seq
				}
			})
		}
		all.Wait()
	}()
	for cuts := 0; cuts < 3; cuts++ {
		one.cutListeners()
		await(t, "both listen again", func() bool { return one.listeners() == 2 })
	}
	<-produced
	for n := range streams {
		one.seal(fmt.Sprint("m", n))
	}
	for n, follow := range followers {
		var want strings.Builder
		for i := range 60 {
			fmt.Fprintf(&want, "%d of %d ", i, n)
		}
		if got := follow(); got != want.String() {
			t.Errorf("stream %d: %q", n, got)
		}
	}
	if m := other.metrics(); m["rillkeep_feed_reconnects_total"] != 3 || m["rillkeep_feed_gaps_total"] < 3 {
		t.Errorf("reconnects %v, gaps %v", m["rillkeep_feed_reconnects_total"], m["rillkeep_feed_gaps_total"])
	}
	text := log.String()
	if lost, back := strings.Count(text, "are not heard"), strings.Count(text, "are heard again"); lost != 6 || back != 6 {
		t.Errorf("two nodes cut three times wrote %d and %d lines", lost, back)
	}
	if strings.Contains(text, "of 3 ") {
		t.Error("the log has the text")
	}
}

func TestWithoutTheFeedAllComesLater(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	direct := pgtest.NewProxy(t, url)
	direct.On(pgtest.Words("LISTEN"), pgtest.CutBefore)
	one, other := twoNodes(t, node.Config{Policy: eager(), Database: url, DirectDatabase: direct.URL(), Limits: router.Limits{FeedPoll: time.Hour}})
	one.open("m1")
	auto, durable := other.watch("m1", ""), other.watch("m1", "plane=durable")
	pos, want := int64(0), ""
	for i := range 20 {
		delta := fmt.Sprintf("%d ", i)
		pos, want = one.push("m1", pos, delta), want+delta
	}
	one.flush("m1")
	other.do(http.MethodPost, path("m1", "cancel"), "")
	for name, got := range map[string]string{"auto": auto(), "durable": durable()} {
		if got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	wantEnding(t, one, "m1", plane.StatusCancelled, want)
}

func TestNoDeltaBreaksACommitWhoeverListens(t *testing.T) {
	t.Parallel()
	one, other := twoNodes(t, node.Config{Policy: eager(), Limits: told()})
	one.exclusively("LISTEN rillkeep; BEGIN; SELECT txid_current()", "ROLLBACK")
	deltas := lines(t, testFile(t, "notify-limit.jsonl"))
	var want strings.Builder
	for _, line := range deltas {
		var delta struct{ Text string }
		if err := json.Unmarshal([]byte(line), &delta); err != nil {
			t.Fatal(err)
		}
		want.WriteString(delta.Text)
	}
	long := strings.Repeat("\"", 256) // an id
	for _, id := range []string{"m1", long} {
		one.appendLines(id, deltas...)
		follow := other.watch(id, "plane=durable")
		one.seal(id)
		if got := follow(); got != want.String() {
			t.Errorf("%d bytes of %d", len(got), want.Len())
		}
		wantEnding(t, one, id, plane.StatusComplete, want.String())
	}
	if m := one.metrics(); m["rillkeep_checkpoint_failures_total"]+m["rillkeep_feed_dropped_total"] != 0 || m["rillkeep_feed_published_total"] == 0 {
		t.Errorf("failures %v, dropped %v", m["rillkeep_checkpoint_failures_total"], m["rillkeep_feed_dropped_total"])
	}
}

func TestADirectDatabaseNeedsADatabase(t *testing.T) {
	_, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), DirectDatabase: "postgres://127.0.0.1/x"})
	if !errors.Is(err, plane.ErrConfig) {
		t.Errorf("got %v", err)
	}
}
