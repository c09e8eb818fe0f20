package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// warm makes a store's pool full of connections.
func warm(t *testing.T, s store.Store, p *pgtest.Proxy, n int) {
	t.Helper()
	p.Delay(100 * time.Millisecond) // for all to be in use at once
	defer p.Delay(0)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := s.Read(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestALostConnectionTakesItsFellowsAlong(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, p *pgtest.Proxy, url string){
		"cut":        func(_ *testing.T, p *pgtest.Proxy, _ string) { p.Cut() },
		"terminated": func(t *testing.T, _ *pgtest.Proxy, url string) { pgtest.Terminate(t, url) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			p := pgtest.NewProxy(t, url)
			s := open(t, p.URL())
			claim(t, s, "s")
			warm(t, s, p, 8)
			lose(t, p, url)
			failed := 0
			for range 20 {
				if _, err := s.Read(t.Context(), "s"); err != nil {
					failed++
				}
			}
			if failed > 1 {
				t.Errorf("%d calls failed", failed)
			}
		})
	}
}

func TestAConnectionThatHangsTakesItsFellowsAlong(t *testing.T) {
	t.Parallel()
	p := pgtest.NewProxy(t, pgtest.URL(t))
	s := open(t, p.URL())
	claim(t, s, "s")
	warm(t, s, p, 8)
	p.Lose()
	defer p.Cut() // else the store's end waits for goodbyes
	failed := 0
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := s.Read(ctx, "s"); err != nil {
			failed++
		}
		cancel()
	}
	if failed > 1 {
		t.Errorf("%d calls failed", failed)
	}
}

func TestAReadOnlyServersConnectionIsNotKept(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url+"&pool_max_conns=2"), pgtest.Pool(t, url)
	row := claim(t, s, "s")
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var name string
	if err := db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	pgtest.Terminate(t, url)
	slice := plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "x"}
	var err error
	for range 4 {
		_, err = s.Append(t.Context(), slice)
	}
	if err == nil || errors.Is(err, plane.ErrBroken) {
		t.Fatalf("append to a read-only server: %v", err)
	}
	if _, err := s.Read(t.Context(), "s"); err != nil {
		t.Errorf("read of a read-only server: %v", err)
	}
	exec("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	_, _ = s.Append(t.Context(), slice) // by the connection that the read left
	if got, err := s.Append(t.Context(), slice); err != nil || got.Seq != 1 {
		t.Errorf("append once it takes writes: %+v, %v", got, err)
	}
}

// Who repeats is the stream, which knows what it may repeat.
func TestNoCallIsRepeatedByItself(t *testing.T) {
	t.Parallel()
	for _, fault := range []pgtest.Fault{pgtest.CutBefore, pgtest.CutAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			p := pgtest.NewProxy(t, pgtest.URL(t))
			s := open(t, p.URL())
			row := claim(t, s, "s")
			var asked atomic.Int32
			off := p.On(func(sql string) bool {
				if pgtest.Writes(sql) {
					asked.Add(1)
					return true
				}
				return false
			}, fault)
			slice := plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "x"}
			if _, err := s.Append(t.Context(), slice); err == nil || errors.Is(err, plane.ErrBroken) {
				t.Errorf("append: %v", err)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the server was asked %d times", n)
			}
			off()
			landed := int64(fault) // of a commit whose answer was lost
			if got, err := s.Read(t.Context(), "s"); err != nil || got.Seq != landed {
				t.Errorf("the row: %+v, %v", got, err)
			}
			if got, err := s.Append(t.Context(), slice); err != nil || got.Seq != 1 {
				t.Errorf("the repeat: %+v, %v", got, err)
			}
		})
	}
}

func TestWhatTheServerWouldRefuseAgainIsBroken(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, db := open(t, url), pgtest.Pool(t, url)
	row := claim(t, s, "s")
	slice := plane.Slice{ID: "s", Token: row.Token, Seq: 3, Text: "bad"}
	seal := plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, Seq: 3, Text: "bad"}
	for name, tt := range map[string]struct {
		do, undo string
		call     func(context.Context) error
	}{
		"a constraint on chunks": {
			"ALTER TABLE rillkeep.chunks ADD CONSTRAINT good CHECK (text <> 'bad')", "ALTER TABLE rillkeep.chunks DROP CONSTRAINT good",
			func(ctx context.Context) error { _, err := s.Append(ctx, slice); return err },
		},
		"a column that must not be null": {
			"ALTER TABLE rillkeep.chunks ADD COLUMN more text NOT NULL", "ALTER TABLE rillkeep.chunks DROP COLUMN more",
			func(ctx context.Context) error { _, err := s.Append(ctx, slice); return err },
		},
		"a constraint on bodies": {
			"ALTER TABLE rillkeep.streams ADD CONSTRAINT good CHECK (status <> 'complete')", "ALTER TABLE rillkeep.streams DROP CONSTRAINT good",
			func(ctx context.Context) error { _, err := s.Seal(ctx, seal); return err },
		},
		"a constraint on ids": {
			"ALTER TABLE rillkeep.streams ADD CONSTRAINT good CHECK (id <> 'bad')", "ALTER TABLE rillkeep.streams DROP CONSTRAINT good",
			func(ctx context.Context) error {
				_, err := s.Open(ctx, plane.Claim{ID: "bad", Node: "n1/boot1"})
				return err
			},
		},
		"a table that is gone": {
			"ALTER TABLE rillkeep.chunks RENAME TO other", "ALTER TABLE rillkeep.other RENAME TO chunks",
			func(ctx context.Context) error { _, err := s.Append(ctx, slice); return err },
		},
		"text that is none": {
			"SELECT", "SELECT",
			func(ctx context.Context) error {
				_, err := s.Append(ctx, plane.Slice{ID: "s", Token: row.Token, Seq: 1, Text: "\x00"})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := db.Exec(t.Context(), tt.do); err != nil {
				t.Fatal(err)
			}
			if err := tt.call(t.Context()); !errors.Is(err, plane.ErrBroken) {
				t.Errorf("got %v", err)
			}
			if _, err := db.Exec(t.Context(), tt.undo); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got, err := s.Append(t.Context(), slice); err != nil || got.Seq != 3 {
		t.Errorf("once all is undone: %+v, %v", got, err)
	}
}
