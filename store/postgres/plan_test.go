package postgres_test

import (
	"strconv"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// However large the tables are, no statement may read through them.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t) + "&plan_cache_mode=force_generic_plan&pool_max_conns=1"
	s, db := open(t, url), pgtest.Pool(t, url)
	for _, sql := range []string{
		`INSERT INTO rillkeep.streams (id, seq, status)
			SELECT 's' || n, 0, CASE WHEN n % 100 = 0 THEN 'streaming' ELSE 'complete' END FROM generate_series(1, 50000) n`,
		"INSERT INTO rillkeep.chunks SELECT 's' || n % 1000, n, 'text' FROM generate_series(1, 50000) n",
		"ANALYZE",
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	statements := s.SQL()
	for name, q := range map[string]store.Query{
		"list of live ones": {Status: plane.StatusStreaming, Prefix: "s4"}, "list of failed ones": {Status: plane.StatusError},
		"list of complete ones": {Status: plane.StatusComplete, After: "s3"}, "list of a prefix": {Prefix: "s42"},
	} {
		where, args, err := rows.Where(q, "$")
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, arg := range args {
			if text, ok := arg.(string); ok {
				values = append(values, "'"+text+"'")
			} else {
				values = append(values, strconv.Itoa(arg.(int)))
			}
		}
		statements[name] = [2]string{"SELECT * FROM rillkeep.streams" + where, strings.Join(values, ", ")}
	}
	for name, statement := range statements {
		t.Run(name, func(t *testing.T) {
			if _, err := db.Exec(t.Context(), "PREPARE p AS "+statement[0]); err != nil {
				t.Fatal(err)
			}
			var plan string
			lines, err := db.Query(t.Context(), "EXPLAIN EXECUTE p("+statement[1]+")")
			if err != nil {
				t.Fatal(err)
			}
			for lines.Next() {
				var line string
				if err := lines.Scan(&line); err != nil {
					t.Fatal(err)
				}
				plan += line + "\n"
			}
			small := strings.NewReplacer("Seq Scan on epochs", "", "Seq Scan on nodes", "") // a handful of rows
			if lines.Err() != nil || plan == "" || strings.Contains(small.Replace(plan), "Seq Scan") {
				t.Errorf("%v\n%s", lines.Err(), plan)
			}
			if _, err := db.Exec(t.Context(), "DEALLOCATE p"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
