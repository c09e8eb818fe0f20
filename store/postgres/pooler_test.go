package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestStoreByWayOfAPooler(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	testStore(t, pgtest.Pool(t, url), pgtest.Bouncer(t, url), postgres.Config{DirectURL: url})
}

func TestANodesNameIsNotHeldByWayOfAPooler(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"that refuses settings": "",
		"that ignores settings": "ignore_startup_parameters = " + ours,
	} {
		t.Run(name, func(t *testing.T) { wantPooled(t, settings) })
	}
}

// wantPooled fails the test unless a pooler with such settings is taken for one.
func wantPooled(t *testing.T, settings string) {
	t.Helper()
	url := pgtest.URL(t)
	pooled := pgtest.Bouncer(t, url, settings)
	s := open(t, pooled)
	if err := supersede(t, s, "n1", "boot1"); !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), "direct") {
		t.Errorf("got %v", err)
	}
	for range 2 { // an own way there is one to a name that others see
		s, err := postgres.Open(t.Context(), pooled, postgres.Config{DirectURL: url})
		if err != nil {
			t.Fatal(err)
		}
		if err := supersede(t, s, "n1", "boot1"); err != nil {
			t.Error(err)
		}
		if err := supersede(t, open(t, url), "n1", "boot2"); !errors.Is(err, store.ErrNameInUse) {
			t.Errorf("another of that name: %v", err)
		}
		pgtest.Close(t, s)
	}
}

// What a URL asks for is not ignored where it can't be had.
func TestASettingThatAPoolerRefusesIsRefused(t *testing.T) {
	t.Parallel()
	pooled := pgtest.Bouncer(t, pgtest.URL(t)) + "&statement_timeout=5s"
	if _, err := postgres.Open(t.Context(), pooled, postgres.Config{}); err == nil || !strings.Contains(err.Error(), "statement_timeout") {
		t.Errorf("got %v", err)
	}
}

// A call that is given up must not take the pooler along, which is everybody's.
func TestAPoolerOutlivesCallsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Bouncer(t, pgtest.URL(t), "; a pooler of its own"))
	claim(t, s, "s")
	var calls sync.WaitGroup
	for n := range 16 {
		calls.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n+i)*20*time.Microsecond)
				_, _ = s.Read(ctx, "s")
				cancel()
			}
		})
	}
	calls.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for s.Ping(ctx) != nil { // after connections that were lost
		if ctx.Err() != nil {
			t.Fatal("the pooler does not answer any more")
		}
	}
}

// ours are the settings that a session is asked for if its URL names none.
const ours = "default_transaction_isolation,lock_timeout,statement_timeout,idle_in_transaction_session_timeout,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count"

func TestASettingThatAPoolerDropsIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for name, c := range map[string]struct{ drops, asks, names string }{
		"a timeout":                 {ours, "statement_timeout=5s", "SET statement_timeout = '5s'"},
		"a default of transactions": {ours + ",default_transaction_isolation", "default_transaction_isolation=serializable", "SET default_transaction_isolation = 'serializable'"},
		"what others are refused":   {"statement_timeout,synchronous_commit", "synchronous_commit=local", "SET synchronous_commit = 'local'"},
		"an option":                 {ours + ",options", "options=-c%20synchronous_commit%3Dlocal%20-cstatement_timeout%3D7s", "SET synchronous_commit = 'local'"},
	} {
		t.Run(name, func(t *testing.T) {
			pooled := pgtest.Bouncer(t, url, "ignore_startup_parameters = "+c.drops) + "&" + c.asks
			_, err := postgres.Open(t.Context(), pooled, postgres.Config{})
			if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), "ALTER ROLE") || !strings.Contains(err.Error(), c.names) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnyOfTheSettingsThatAPoolerDropsShowsIt(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	direct := url + "&lock_timeout=0" // so that it can't be told by that
	s := open(t, pgtest.Bouncer(t, direct, "ignore_startup_parameters = "+ours+",extra_float_digits"))
	if got, want := postgres.Settings(t, s), "rillkeep 0 0"; got != want {
		t.Fatalf("the sessions have %q, want %q", got, want)
	}
	if err := supersede(t, s, "n1", "boot1"); !errors.Is(err, plane.ErrConfig) {
		t.Errorf("a name by way of it: %v", err)
	}
	advice, err := s.Advice(t.Context())
	if err != nil || len(advice) != 1 || !strings.Contains(advice[0], "SET lock_timeout = '20ms'") || !strings.Contains(advice[0], "SET statement_timeout = '30s'") {
		t.Errorf("the operator is told %q, %v", advice, err)
	}
	if advice, err := open(t, url).Advice(t.Context()); err != nil || len(advice) != 0 {
		t.Errorf("without a pooler: %q, %v", advice, err)
	}
}
