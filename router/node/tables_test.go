package node_test

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// full is an application's tables with a column for everything, bare those with
// what must be.
var (
	bare = mapped.Tables{Message: "message", Chunks: "message_chunk"}
	full = mapped.Tables{Message: "message", Chunks: "message_chunk", Host: "host", Cancel: "stop", Error: "error"}
)

// application is an application's own view of its database.
type application struct {
	tb testing.TB
	db *sql.DB
}

// openTables starts a node on tables of an application's.
func openTables(tb testing.TB, tables mapped.Tables) (*running, application) {
	tb.Helper()
	url := pgtest.URL(tb)
	db, err := sql.Open("pgx", url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	app := application{tb, db}
	ddl, err := tables.DDL()
	if err != nil {
		tb.Fatal(err)
	}
	app.exec(`CREATE TABLE message (id text PRIMARY KEY, body text NOT NULL DEFAULT '', status text, seq integer NOT NULL DEFAULT 0,
		host text, stop boolean NOT NULL DEFAULT false, error text)`)
	app.exec(ddl)
	return openNode(tb, node.Config{Database: url, Tables: tables, Policy: impatient()}), app
}

// second starts another node on the tables of n.
func (r *running) second(cfg node.Config) *running {
	r.tb.Helper()
	cfg.Database, cfg.Tables, cfg.Policy = r.cfg.Database, r.cfg.Tables, impatient()
	return openNode(r.tb, cfg)
}

func (a application) exec(sql string) {
	a.tb.Helper()
	if _, err := a.db.ExecContext(a.tb.Context(), sql); err != nil {
		a.tb.Fatalf("%s: %v", sql, err)
	}
}

// message is a row, of which NULL is no text.
func (a application) message(id string) (body, status, message string, chunks int) {
	a.tb.Helper()
	err := a.db.QueryRowContext(a.tb.Context(), `
		SELECT body, coalesce(status, ''), coalesce(error, ''), (SELECT count(*) FROM message_chunk WHERE "streamId" = message.id) FROM message WHERE id = $1`, id).
		Scan(&body, &status, &message, &chunks)
	if err != nil {
		a.tb.Fatal(err)
	}
	return body, status, message, chunks
}

// onTables runs a test on both kinds of tables.
func onTables(t *testing.T, test func(t *testing.T, n *running, app application, tables mapped.Tables)) {
	for name, tables := range map[string]mapped.Tables{"full": full, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, app := openTables(t, tables)
			test(t, n, app, tables)
		})
	}
}

func TestAnApplicationsMessagesAreStreams(t *testing.T) {
	t.Parallel()
	onTables(t, func(t *testing.T, n *running, app application, tables mapped.Tables) {
		wantError(t, "open", n.do(http.MethodPost, path("m1"), ""), http.StatusNotFound, "not_found")
		app.exec("INSERT INTO message (id) VALUES ('m1'), ('m2')")
		if snap := n.snapshot("m1"); snap.Status != plane.StatusPending || !snap.CreatedAt.IsZero() {
			t.Errorf("before it is opened: %+v", snap)
		}
		n.open("m1")
		r := n.reads("m1", "")
		n.push("m1", 0, "Hello, ", "message 😀")
		n.flush("m1")
		if body, status, _, chunks := app.message("m1"); body != "" || status != "streaming" || chunks == 0 {
			t.Errorf("while it lives: %q, %s, %d chunks", body, status, chunks)
		}
		n.push("m1", 17, ".")
		n.seal("m1")
		if body, status, _, chunks := app.message("m1"); body != "Hello, message 😀." || status != "complete" || chunks != 0 {
			t.Errorf("sealed: %q, %s, %d chunks", body, status, chunks)
		}
		if err := r.rest(); err != nil || r.end.Status != plane.StatusComplete || r.end.Seq != 18 {
			t.Errorf("its reader: %+v, %v", r.end, err)
		}
		n.open("m2")
		if a := n.do(http.MethodPost, path("m2", "fail"), `{"error":"no model"}`); a.status != http.StatusOK {
			t.Errorf("fail: %d %s", a.status, a.body)
		}
		want := ""
		if tables.Error != "" {
			want = "no model"
		}
		if _, status, message, _ := app.message("m2"); status != "error" || message != want {
			t.Errorf("failed: %s, %q", status, message)
		}
		n = n.restart()
		if snap := n.snapshot("m1"); ended(t, snap) != plane.StatusComplete || snap.Text != "Hello, message 😀." || snap.EndedAt != nil {
			t.Errorf("after a restart: %+v", snap)
		}
		wantError(t, "open again", n.do(http.MethodPost, path("m1"), ""), http.StatusConflict, "exists")
	})
}

func TestRefusalsOfAMessageHaveCodesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onTables(t, func(t *testing.T, n *running, app application, _ mapped.Tables) {
		app.exec("ALTER TABLE message ALTER COLUMN seq DROP NOT NULL")
		app.exec(`INSERT INTO message (id, seq, status, body) VALUES
			('null', NULL, NULL, ''), ('advanced', 3, 'draft', 'abc'), ('body', 0, NULL, 'abc'), ('held', 0, 'streaming', '')`)
		for id, want := range map[string]string{"null": "null_length", "advanced": "exists", "body": "exists", "held": "held"} {
			wantError(t, id, n.do(http.MethodPost, path(id), ""), http.StatusConflict, want)
		}
	})
}

func TestACancelByAnApplicationsSQLStopsTheProducer(t *testing.T) {
	t.Parallel()
	n, app := openTables(t, full)
	app.exec("INSERT INTO message (id) VALUES ('m1'), ('m2')")
	n.open("m1")
	at := n.push("m1", 0, "some text, ")
	app.exec("UPDATE message SET stop = true WHERE id = 'm1'")
	await(t, "an append is refused", func() bool {
		a := n.do(http.MethodPost, path("m1", "append"), `{"text":"more"}`)
		return a.status == http.StatusConflict && a.err().Code == "cancelled"
	})
	n.seal("m1")
	body, status, _, _ := app.message("m1")
	if status != "cancelled" || !strings.HasPrefix(body, "some text, more") || plane.Units(body) <= at {
		t.Errorf("it is %s with %q", status, body)
	}
	if a := n.do(http.MethodPost, path("m2", "cancel"), ""); a.status != http.StatusAccepted {
		t.Errorf("cancel by the API: %d %s", a.status, a.body)
	}
	n.open("m2")
	n.seal("m2")
	if _, status, _, _ := app.message("m2"); status != "cancelled" {
		t.Errorf("cancelled before it began it is %s", status)
	}
}

func TestWithoutAColumnForItACancelIsRefused(t *testing.T) {
	t.Parallel()
	n, app := openTables(t, bare)
	app.exec("INSERT INTO message (id, stop) VALUES ('m1', true)")
	wantError(t, "cancel", n.do(http.MethodPost, path("m1", "cancel"), ""), http.StatusNotImplemented, "unsupported")
	n.open("m1")
	n.push("m1", 0, "text")
	n.seal("m1")
	if _, status, _, _ := app.message("m1"); status != "complete" {
		t.Errorf("a column that is not named made it %s", status)
	}
}

// A row that is ended or moved by other hands under a live stream is lost.
func TestAStreamWhoseMessageIsTakenFromItStandsDown(t *testing.T) {
	t.Parallel()
	onTables(t, func(t *testing.T, n *running, app application, tables mapped.Tables) {
		app.exec("INSERT INTO message (id) VALUES ('ended'), ('moved')")
		for id, sql := range map[string]string{
			"ended": "UPDATE message SET status = 'interrupted', body = 'abc' WHERE id = 'ended'",
			"moved": "UPDATE message SET seq = 9 WHERE id = 'moved'",
		} {
			n.open(id)
			n.push(id, 0, "abc")
			n.flush(id)
			app.exec(sql)
			n.push(id, 3, "def")
			wantError(t, id, n.do(http.MethodPost, path(id, "flush"), ""), http.StatusServiceUnavailable, "owner_fenced")
			if _, _, _, chunks := app.message(id); chunks != 1 {
				t.Errorf("%s: %d chunks", id, chunks)
			}
		}
		if tables.Host != "" {
			return // the token still tells that the row is the stream's: its seal mends the length
		}
		app.exec("INSERT INTO message (id) VALUES ('idle')")
		n.open("idle")
		app.exec("UPDATE message SET seq = 9 WHERE id = 'idle'")
		wantError(t, "idle", n.do(http.MethodPost, path("idle", "close"), ""), http.StatusServiceUnavailable, "owner_fenced")
		if body, status, _, _ := app.message("idle"); body != "" || status != "streaming" {
			t.Errorf("idle: %s with %q", status, body)
		}
	})
}

func TestWhatADeadNodeLeftIsSealedWhereAHostColumnTells(t *testing.T) {
	t.Parallel()
	onTables(t, func(t *testing.T, n *running, app application, tables mapped.Tables) {
		app.exec("INSERT INTO message (id) VALUES ('m1')")
		n.open("m1")
		n.push("m1", 0, "durable ")
		n.flush("m1")
		if tables.Host == "" {
			n.restart()
			if body, status, _, _ := app.message("m1"); status != "streaming" || body != "" {
				t.Errorf("it is %s with %q", status, body)
			}
			return
		}
		n = n.restartBriefly()
		n.swept("m1")
		if body, status, _, _ := app.message("m1"); status != "interrupted" || body != "durable " {
			t.Errorf("it is %s with %q", status, body)
		}
	})
}

func TestOptionsThatTablesCannotHonourAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for name, c := range map[string]struct {
		cfg  node.Config
		want string
	}{
		"tables without a database": {node.Config{Tables: full}, "a postgres:// URL"},
		"tables in another":         {node.Config{Tables: full, Database: "mysql://x"}, "a postgres:// URL"},
		"a name without a host":     {node.Config{Tables: bare, Database: url, Name: "n1"}, "a node's name needs a column for host"},
		"retention":                 {node.Config{Tables: full, Database: url, Retention: time.Hour}, "no retention"},
		"leases without a host":     {node.Config{Tables: bare, Database: url, LeaseTTL: time.Second}, "leases need a column for host"},
		"columns without a table":   {node.Config{Tables: mapped.Tables{Host: "host"}, Database: url}, "no table is named for messages"},
		"tables that are not there": {node.Config{Tables: full, Database: url}, `there is no table "message" for messages`},
	} {
		c.cfg.Listen = "127.0.0.1:0"
		n, err := node.Open(t.Context(), c.cfg)
		if err == nil {
			_ = n.Close()
		}
		if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestNodesOnOneApplicationsTablesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	n, _ := openTables(t, full)
	cfg := n.cfg
	cfg.Listen = "127.0.0.1:0"
	if second, err := node.Open(t.Context(), cfg); !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("got %v", err)
		if err == nil {
			_ = second.Close()
		}
	}
	cfg.Name = "n2"
	openNode(t, cfg)
}

func TestTheMessagesOfANodeThatDiedAreSealedByAnother(t *testing.T) {
	t.Parallel()
	n, app := openTables(t, full)
	dies, lives := n.second(brief("", "dies")), n.second(brief("", "lives"))
	app.exec("INSERT INTO message (id) VALUES ('m1'), ('live')")
	dies.open("m1")
	dies.push("m1", 0, "durable ")
	dies.flush("m1")
	lives.open("live")
	lives.push("live", 0, "not a word ")
	dies.http.CloseIdleConnections()
	if err := dies.Close(); err != nil { // with no word to the database
		t.Fatal(err)
	}
	await(t, "its row says streaming no more (L)", func() bool {
		_, status, _, _ := app.message("m1")
		return status == "interrupted"
	})
	if body, _, _, chunks := app.message("m1"); body != "durable " || chunks != 0 {
		t.Errorf("%q, %d chunks", body, chunks)
	}
	lives.push("live", 11, "is lost")
	lives.seal("live")
	if body, status, _, _ := app.message("live"); body != "not a word is lost" || status != "complete" {
		t.Errorf("the other's is %s with %q", status, body)
	}
}

func TestNodesOnOneApplicationsTablesHearOfEachOther(t *testing.T) {
	t.Parallel()
	n, app := openTables(t, full)
	other := n.second(node.Config{Name: "n2"})
	app.exec("INSERT INTO message (id) VALUES ('m1'), ('m2')")
	n.open("m1")
	follower := other.reads("m1", "")
	at := n.push("m1", 0, "some text")
	n.flush("m1")
	if err := follower.until(at); err != nil {
		t.Error(err)
	}
	if a := other.do(http.MethodPost, path("m1", "cancel"), ""); a.status != http.StatusAccepted {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	await(t, "the silent stream ends", func() bool { // sealed after the cancel's grace
		_, status, _, _ := app.message("m1")
		return status == "cancelled"
	})
	if err := follower.rest(); err != nil || follower.end.Status != plane.StatusCancelled {
		t.Errorf("the follower: %+v, %v", follower.end, err)
	}
	n.open("m2")
	n.push("m2", 0, "more text")
	app.exec("UPDATE message SET stop = true WHERE id = 'm2'") // told to nobody
	await(t, "another silent stream ends", func() bool {
		_, status, _, _ := app.message("m2")
		return status == "cancelled"
	})
	if m := other.metrics(); m["rillkeep_feed_messages_total"] == 0 && m["rillkeep_feed_received_total"] == 0 {
		t.Errorf("nothing was heard: %v", m)
	}
}
