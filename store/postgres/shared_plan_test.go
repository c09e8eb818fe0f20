package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// What sweepers and retention ask every few seconds reads no table of streams
// through, however many there are and however many of them are live.
func TestSweepingAndRetentionUseIndexes(t *testing.T) {
	t.Parallel()
	for name, streaming := range map[string]string{"few are live": "n % 100 = 0", "most are live": "n % 100 > 0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t) + "&plan_cache_mode=force_generic_plan&pool_max_conns=1"
			s, db := open(t, url), pgtest.Pool(t, url)
			for _, sql := range []string{
				`INSERT INTO rillkeep.streams (id, status, host, ended_at)
					SELECT 's' || n, CASE WHEN live THEN 'streaming' ELSE 'complete' END,
						'n' || n % 10 || '/boot1/1', CASE WHEN NOT live THEN now() - make_interval(mins => n) END
					FROM (SELECT n, ` + streaming + ` AS live FROM generate_series(1, 100000) n) s`,
				"INSERT INTO rillkeep.chunks SELECT 's' || n % 1000, n, 'text' FROM generate_series(1, 100000) n",
				"INSERT INTO rillkeep.nodes SELECT 'n' || n, 'boot1', '', '', now(), now() + interval '10s' FROM generate_series(1, 9) n",
				"ANALYZE",
			} {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			for name, statement := range s.SharedSQL() {
				plan := explain(t, db, statement[0], statement[1])
				if strings.Contains(strings.NewReplacer("Seq Scan on nodes", "", "Seq Scan on epochs", "").Replace(plan), "Seq Scan") {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
		})
	}
}

// explain answers the generic plan of a statement.
func explain(t *testing.T, db *pgxpool.Pool, sql, args string) string {
	t.Helper()
	if _, err := db.Exec(t.Context(), "PREPARE p AS "+sql); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	if args != "" {
		args = "(" + args + ")"
	}
	lines, err := db.Query(t.Context(), "EXPLAIN EXECUTE p"+args)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
	if err != nil || len(plan) == 0 {
		t.Fatalf("%v, %v", plan, err)
	}
	if _, err := db.Exec(t.Context(), "DEALLOCATE p"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
