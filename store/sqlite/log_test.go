package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/sqlite"
)

// readAlways keeps some reader of a file in a transaction at any time, until the
// test ends.
func readAlways(t *testing.T, path string) {
	t.Helper()
	db := raw(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	var first sync.WaitGroup
	for n := range 3 {
		first.Add(1)
		running.Go(func() {
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Error(err)
				first.Done()
				return
			}
			defer conn.Close()
			for round := 0; ctx.Err() == nil; round++ {
				_, _ = conn.ExecContext(ctx, "BEGIN; SELECT count(*) FROM streams")
				if round == 0 {
					first.Done()
				}
				<-time.After(time.Duration(8+4*n) * time.Millisecond)
				_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
			}
		})
	}
	first.Wait()
}

func TestTheLogStaysShortWhoeverReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path, sqlite.Config{NoSync: true})
	readAlways(t, path)
	const (
		slices = 64 << 10
		total  = 128 << 20
		most   = 96 << 20
	)
	text := strings.Repeat("x", slices)
	var longest int64
	var took time.Duration
	for n := range 4 {
		id := fmt.Sprint("s", n)
		row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: "n1/boot1"})
		if err != nil {
			t.Fatal(err)
		}
		for range total / slices / 4 {
			began := time.Now()
			row, err = s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: row.Seq + slices, Text: text})
			if err != nil {
				t.Fatal(err)
			}
			took = max(took, time.Since(began))
			info, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, info.Size())
		}
	}
	t.Logf("the log had %d MiB, the longest append took %v", longest>>20, took)
	if longest > most {
		t.Errorf("the log had %d MiB when %d were written", longest>>20, total>>20)
	}
}
