package rows_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

func TestAPrefixIsARange(t *testing.T) {
	chars := rapid.SampledFrom([]rune("ab%_\u007f\u0080\uD7FF\uE000\uFFFF\U00010000\U0010FFFF"))
	names := rapid.StringOfN(chars, 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		prefix, id := names.Draw(t, "prefix"), names.Draw(t, "id")
		sql, args, err := rows.Where(store.Query{Prefix: prefix}, "$")
		if err != nil {
			t.Fatal(err)
		}
		in := id > args[0].(string) || strings.Contains(sql, "id >= $1") && id == args[0]
		if len(args) == 3 {
			in = in && id < args[1].(string)
		}
		if id != "" && in != strings.HasPrefix(id, prefix) {
			t.Fatalf("%s with %q: %v", sql, args, in)
		}
	})
}

func TestQueriesAreRanges(t *testing.T) {
	for name, c := range map[string]struct {
		query store.Query
		sql   string
		args  []any
	}{
		"all": {store.Query{}, " WHERE id > $1 ORDER BY id LIMIT $2", []any{"", 100}},
		"the next page of a prefix": {
			store.Query{Prefix: "a", After: "ab", Limit: 7},
			" WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3", []any{"ab", "b", 7},
		},
		"a page that begins before its prefix": {
			store.Query{Prefix: "b", After: "ab"},
			" WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3", []any{"b", "c", 100},
		},
		"live ones": {
			store.Query{Status: plane.StatusStreaming, Limit: 5000},
			" WHERE status = 'streaming' AND status <> 'complete' AND id > $1 ORDER BY id LIMIT $2", []any{"", 1000},
		},
		"complete ones": {
			store.Query{Status: plane.StatusComplete},
			" WHERE status = 'complete' AND id > $1 ORDER BY id LIMIT $2", []any{"", 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sql, args, err := rows.Where(c.query, "$")
			if diff := cmp.Diff(c.args, args); sql != c.sql || diff != "" || err != nil {
				t.Errorf("got %s with %v, %v", sql, args, err)
			}
		})
	}
}

func TestOnlyStatusesThatThereAreAreAskedFor(t *testing.T) {
	for status, ok := range map[plane.Status]bool{"": true, plane.StatusError: true, "done": false, "' OR ''='": false} {
		sql, _, err := rows.Where(store.Query{Status: status}, "$")
		if (err == nil) != ok || (sql == "") == ok {
			t.Errorf("%q: %q, %v", status, sql, err)
		}
	}
}
