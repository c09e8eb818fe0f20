package node_test

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// block makes the store's writes wait until release is called, which may be
// done twice.
func (r *running) block() (release func()) {
	r.tb.Helper()
	driver, source, lock := "sqlite", "file:"+r.sqliteFile()+"?_pragma=busy_timeout(10000)", "BEGIN IMMEDIATE"
	if r.cfg.Database != "" {
		driver, source, lock = "pgx", r.cfg.Database, "BEGIN; LOCK TABLE rillkeep.streams IN EXCLUSIVE MODE"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		r.tb.Fatal(err)
	}
	ctx := context.WithoutCancel(r.tb.Context())
	conn, err := db.Conn(ctx)
	if err != nil {
		r.tb.Fatal(err)
	}
	if _, err := conn.ExecContext(ctx, lock); err != nil {
		r.tb.Fatal(err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			_, _ = conn.ExecContext(ctx, "ROLLBACK")
			_ = conn.Close()
			_ = db.Close()
		})
	}
	r.tb.Cleanup(release)
	return release
}

// impatient is a policy that gives up on the store soon, and tries again soon.
func impatient() plane.Policy {
	p := plane.DefaultPolicy()
	p.Interval, p.MaxBackoff = 50*time.Millisecond, 100*time.Millisecond
	p.StoreTimeout, p.Retries, p.RetryDelay = 500*time.Millisecond, 1, 10*time.Millisecond
	p.SealPatience = time.Second
	return p
}

// record is a log that a test looks at.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *record) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *record) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logger returns a logger of all levels.
func (l *record) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestReadersNoticeNothingOfAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	log := &record{}
	onEachStore(t, node.Config{Policy: impatient(), Logger: log.logger()}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "durable ")
		n.flush("m1")
		r := n.reads("m1", "")
		release := n.block()
		pos := n.push("m1", 8, "produced ")
		if err := r.until(pos); err != nil {
			t.Fatal(err)
		}
		a := n.do(http.MethodPost, path("m1", "flush"), "")
		wantError(t, "flush", a, http.StatusServiceUnavailable, "not_durable")
		if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "durable 8 of 17") {
			t.Errorf("flush: %v %s", a.header, a.body)
		}
		if snap := n.snapshot("m1"); snap.Text != "durable produced " || snap.DurableSeq != 8 || snap.Seq != 17 {
			t.Errorf("%+v", snap)
		}
		if m := n.metrics(); m["rillkeep_checkpoint_failures_total"] == 0 || m["rillkeep_checkpoint_retries_total"] == 0 {
			t.Errorf("failures %v, retries %v", m["rillkeep_checkpoint_failures_total"], m["rillkeep_checkpoint_retries_total"])
		}
		release()
		await(t, "the text is durable by itself", func() bool { return n.snapshot("m1").DurableSeq == 17 })
		n.seal("m1")
		if err := r.rest(); err != nil || r.durable != 17 {
			t.Errorf("durable %d, %v", r.durable, err)
		}
	})
	t.Cleanup(func() {
		if text := log.String(); !strings.Contains(text, "checkpoint failed") || strings.Contains(text, "produced ") {
			t.Errorf("the log: %s", text)
		}
	})
}

func TestAReaderThatComesWhileTheEndIsWrittenGetsItAll(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "all of it")
		release := n.block()
		sealed := make(chan answer, 1)
		go func() {
			a, err := n.try(t.Context(), http.MethodPost, path("m1", "close"), "")
			if err != nil {
				t.Error(err)
			}
			sealed <- a
		}()
		await(t, "the stream takes no more", func() bool {
			return n.do(http.MethodPost, path("m1", "append")+"?from=0", `{"text":"all of it"}`).err().Code == "closed"
		})
		whole, middle := n.reads("m1", ""), n.reads("m1", "from=4")
		if err := whole.until(9); err != nil {
			t.Error(err)
		}
		if err := middle.until(9); err != nil {
			t.Error(err)
		}
		release()
		for _, r := range []*reader{whole, middle} {
			if err := r.rest(); err != nil || r.end.Kind != plane.KindEnd || r.end.Seq != 9 {
				t.Errorf("%+v, %v", r.end, err)
			}
		}
		if a := <-sealed; a.status != http.StatusOK {
			t.Errorf("close: %d %s", a.status, a.body)
		}
	})
}

func TestASealThatCannotReachTheStoreSaysSo(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: impatient()}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "durable ")
		n.flush("m1")
		r := n.reads("m1", "")
		release := n.block()
		n.push("m1", 8, "lost")
		wantError(t, "close", n.do(http.MethodPost, path("m1", "close"), ""), http.StatusServiceUnavailable, "not_durable")
		if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted || r.end.Seq != 8 || r.pos != 12 {
			t.Errorf("a reader at %d was told %+v, %v", r.pos, r.end, err)
		}
		wantError(t, "flush", n.do(http.MethodPost, path("m1", "flush"), ""), http.StatusServiceUnavailable, "not_durable")
		wantError(t, "close again", n.do(http.MethodPost, path("m1", "close"), ""), http.StatusServiceUnavailable, "not_durable")
		wantError(t, "append", n.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`), http.StatusConflict, "closed")
		release()
		n = n.restartBriefly() // what the row says is made true by a sweeper
		wantEnding(t, n, "m1", plane.StatusInterrupted, "durable ")
	})
}
