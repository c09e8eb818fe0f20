package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// Of two nodes that open the same streams at once one wins each, and the other
// is told so, also where the winner's answer is lost on the way (O).
func TestOfTwoNodesThatOpenAStreamAtOnceOneWins(t *testing.T) {
	t.Parallel()
	const rounds, ids, atOnce = 50, 200, 8
	url := pgtest.URL(t)
	proxy := pgtest.NewProxy(t, url)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	configs := make([]plane.Config, 2)
	for node, url := range []string{url, proxy.URL()} {
		s, err := postgres.Open(t.Context(), url, postgres.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		policy := policy()
		policy.Retries, policy.RetryDelay, policy.StoreTimeout = 20, time.Millisecond, patience
		configs[node] = plane.Config{Store: s, Policy: policy}
	}
	for round := range rounds {
		name := func(i int) string { return fmt.Sprintf("r%02d-%03d", round, i) }
		off := func() {}
		if round%5 == 4 {
			off = proxy.On(pgtest.Every(9, pgtest.Words("insert")), pgtest.CutAfter)
		}
		var errs [2][ids]error
		var all sync.WaitGroup
		for node := range configs {
			for from := range atOnce {
				all.Go(func() {
					for i := from; i < ids; i += atOnce {
						claim := plane.Claim{ID: name(i), Node: fmt.Sprintf("n%d/boot1", node)}
						_, errs[node][i] = plane.Open(t.Context(), configs[node], claim)
					}
				})
			}
		}
		all.Wait()
		off()
		hosts := owners(t, db, name(0)[:4])
		for i := range ids {
			winner := 0
			if errs[0][i] != nil {
				winner = 1
			}
			lost := errs[1-winner][i]
			if errs[winner][i] != nil || !errors.Is(lost, plane.ErrHeld) && !errors.Is(lost, plane.ErrLostRace) {
				t.Fatalf("%s: n0 was told %v, n1 %v", name(i), errs[0][i], errs[1][i])
			}
			if host := hosts[name(i)]; !strings.HasPrefix(host, fmt.Sprintf("n%d/", winner)) {
				t.Fatalf("%s: n%d won, the row says %q", name(i), winner, host)
			}
		}
	}
}

// owners answers the owner tokens of the streams whose ids begin so.
func owners(t *testing.T, db *pgx.Conn, prefix string) map[string]string {
	t.Helper()
	found, err := db.Query(t.Context(), "SELECT id, host FROM rillkeep.streams WHERE starts_with(id, $1)", prefix)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(map[string]string)
	var id, host string
	if _, err := pgx.ForEachRow(found, []any{&id, &host}, func() error { hosts[id] = host; return nil }); err != nil {
		t.Fatal(err)
	}
	return hosts
}
