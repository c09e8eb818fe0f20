package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
)

// stuck starts a node that has a stream to seal when it is told to stop, and
// whose SQLite file somebody else holds.
func stuck(t *testing.T, args ...string) *proctest.Process {
	t.Helper()
	return stuckBy(t, serve, args...)
}

// stuckBy is stuck for a node that start starts.
func stuckBy(t *testing.T, start func(*testing.T, ...string) (*proctest.Process, string), args ...string) *proctest.Process {
	t.Helper()
	data := t.TempDir()
	p, url := start(t, append(args, "--data", data)...)
	post(t, url+"/v1/streams/m1", ``)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "rillkeep.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	post(t, url+"/v1/streams/m1/append", `{"text":"text"}`)
	return p
}

func TestServeEndsInTimeWithoutItsStore(t *testing.T) {
	t.Parallel()
	p := stuck(t, "--drain", "2s")
	began := time.Now()
	p.Signal(t, syscall.SIGTERM)
	if code, took := p.Ended(t), time.Since(began); code != exitFailure || took > 9*time.Second {
		t.Errorf("exit %d after %v", code, took)
	}
	if said := p.Err.String(); !strings.Contains(said, `drain "m1"`) {
		t.Errorf("it does not say what it could not do: %s", said)
	}
}

func TestASecondSignalEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := stuck(t, "--drain", "1m")
		began := time.Now()
		again := time.NewTicker(echoed / 4)
		defer again.Stop()
		for alive := true; alive && time.Since(began) < patience; {
			_ = p.Cmd.Process.Signal(s) // it may have ended just now
			select {
			case <-p.Done:
				alive = false
			case <-again.C:
			}
		}
		p.Ended(t)
		status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
		if took := time.Since(began); status.Signal() != s || took < echoed || took > echoed+30*time.Second {
			t.Errorf("%v: it ended with %v after %v", os.Signal(s), p.Cmd.ProcessState, took)
		}
	}
}
