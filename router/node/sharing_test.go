package node_test

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// onEachShared runs a test with each of the stores that several nodes share. in
// makes a configuration one of that store.
func onEachShared(t *testing.T, test func(t *testing.T, in func(node.Config) node.Config)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, func(cfg node.Config) node.Config {
			cfg.Data = dir
			return cfg
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, func(cfg node.Config) node.Config {
			cfg.Database = url
			return cfg
		})
	})
}

// sharedDB is the node's database, past the node, and a statement for schema rillkeep
// as it is there.
func (r *running) sharedDB(statement string) (*sql.DB, string) {
	r.tb.Helper()
	driver, source := "pgx", r.cfg.Database
	if source == "" {
		driver, source = "sqlite", "file:"+r.sqliteFile()+"?_pragma=busy_timeout(10000)"
		statement = strings.ReplaceAll(statement, "rillkeep.", "")
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		r.tb.Fatal(err)
	}
	return db, statement
}

func TestAFollowerOnAnotherNodeIsToldOfEachAdvance(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		one := openNode(t, in(node.Config{Policy: patient(), Limits: told()}))
		other := openNode(t, in(node.Config{Policy: patient(), Limits: told(), Name: "n2"}))
		one.open("m1")
		readers := []*reader{other.reads("m1", ""), other.reads("m1", "plane=durable"), one.reads("m1", "plane=durable")}
		pos := int64(0)
		for range 10 {
			pos = one.push("m1", pos, "text 😀 ")
			one.flush("m1")
			for _, r := range readers {
				if err := r.until(pos); err != nil {
					t.Fatal(err)
				}
			}
		}
		one.seal("m1")
		for _, r := range readers {
			if err := r.rest(); err != nil || r.end.Kind != plane.KindEnd || r.end.Seq != pos {
				t.Errorf("%+v, %v", r.end, err)
			}
		}
		m := other.metrics()
		if m["rillkeep_feed_received_total"] < 10 || m["rillkeep_feed_gaps_total"] != 0 || m["rillkeep_feed_reconnects_total"] != 0 {
			t.Errorf("received %v, gaps %v", m["rillkeep_feed_received_total"], m["rillkeep_feed_gaps_total"])
		}
		if m := one.metrics(); m["rillkeep_feed_published_total"] < 10 || m["rillkeep_feed_dropped_total"] != 0 || m["rillkeep_feed_received_total"] != 0 {
			t.Errorf("published %v, dropped %v, heard of others %v",
				m["rillkeep_feed_published_total"], m["rillkeep_feed_dropped_total"], m["rillkeep_feed_received_total"])
		}
	})
}

// stopsQuiet checks that a cancel of stream m1 reaches its producer and its reader,
// and no other stream. The producer is silent: neither a delta nor a checkpoint shows
// it the flag.
func (r *running) stopsQuiet(cancel func()) {
	r.tb.Helper()
	r.open("m1")
	r.open("m2")
	p := r.pump("m1", "from=0", "text/plain")
	p.piece("produced")
	follower := r.reads("m1", "")
	if err := follower.until(8); err != nil {
		r.tb.Fatal(err)
	}
	cancel()
	if line := p.last(); !line.Done || !line.Cancelled || line.Seq != 8 {
		r.tb.Errorf("the producer was told %+v", line)
	}
	if err := follower.rest(); err != nil || follower.end.Status != plane.StatusCancelled || follower.end.Seq != 8 {
		r.tb.Errorf("the reader was told %+v, %v", follower.end, err)
	}
	if snap := r.snapshot("m2"); snap.Status != plane.StatusStreaming {
		r.tb.Errorf("another stream is %s", snap.Status)
	}
}

func TestACancelReachesAQuietStream(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(t *testing.T, owner, other *running){
		"by plain SQL": func(t *testing.T, owner, _ *running) {
			db, statement := owner.sharedDB("UPDATE rillkeep.streams SET cancel = true WHERE id = 'm1'")
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		},
		"through another node": func(t *testing.T, _, other *running) {
			if a := other.do(http.MethodPost, path("m1", "cancel"), ""); a.status != http.StatusAccepted {
				t.Fatalf("%d %s", a.status, a.body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
				owner := openNode(t, in(node.Config{Policy: patient()}))
				other := openNode(t, in(node.Config{Policy: patient(), Name: "n2"}))
				owner.stopsQuiet(func() { cancel(t, owner, other) })
			})
		})
	}
}

func TestNodesOfOneDatabaseHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onEachShared(t, func(t *testing.T, in func(node.Config) node.Config) {
		n := openNode(t, in(node.Config{}))
		_, err := node.Open(t.Context(), in(node.Config{Listen: "127.0.0.1:0", Name: "n1"}))
		if !errors.Is(err, store.ErrNameInUse) {
			t.Errorf("a second node of the name: %v", err)
		}
		other := openNode(t, in(node.Config{Name: "n2"}))
		n.open("m1")
		n.push("m1", 0, "text")
		wantError(t, "open", other.do(http.MethodPost, path("m1"), ""), http.StatusConflict, "held")
		n.seal("m1")
		wantEnding(t, other, "m1", plane.StatusComplete, "text")
	})
}

func TestOneNodeOfAFolderNeedsNoName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 2 {
		n, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Data: dir}); !errors.Is(err, store.ErrNameInUse) {
			t.Errorf("round %d, a second: %v", round, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}
