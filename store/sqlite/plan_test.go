package sqlite_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
	"rillkeep.dev/rillkeep/store/sqlite"
)

var parameter = regexp.MustCompile(`\?(\d)`)

// However large the tables are, no statement may read through them.
func TestStatementsUseIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open(t, path, sqlite.Config{})
	db := raw(t, path)
	statements := sqlite.SQL()
	for name, q := range map[string]store.Query{
		"list of live ones": {Status: plane.StatusStreaming, Prefix: "s4"}, "list of failed ones": {Status: plane.StatusError},
		"list of complete ones": {Status: plane.StatusComplete, After: "s3"}, "list of a prefix": {Prefix: "s42"},
	} {
		where, _, err := rows.Where(q, "?")
		if err != nil {
			t.Fatal(err)
		}
		statements[name] = "SELECT * FROM streams" + where
	}
	for name, statement := range statements {
		steps, err := db.Query("EXPLAIN QUERY PLAN " + parameter.ReplaceAllString(statement, "'$1'"))
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for steps.Next() {
			var id, parent, unused int
			var detail string
			if err := steps.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := steps.Err(); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, "SEARCH") || strings.Contains(text, "SCAN streams") ||
			strings.Contains(text, "SCAN chunks") || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
