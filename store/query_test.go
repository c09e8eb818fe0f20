package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func TestAPrefixIsARange(t *testing.T) {
	chars := rapid.SampledFrom([]rune("ab%_\u007f\u0080\uD7FF\uE000\uFFFF\U00010000\U0010FFFF"))
	names := rapid.StringOfN(chars, 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		prefix, id := names.Draw(t, "prefix"), names.Draw(t, "id")
		sql, args := store.Query{Prefix: prefix}.Where("$")
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
			sql, args := c.query.Where("$")
			if diff := cmp.Diff(c.args, args); sql != c.sql || diff != "" {
				t.Errorf("got %s with %v", sql, args)
			}
		})
	}
}

func TestOnlyStatusesThatThereAreAreAskedFor(t *testing.T) {
	for status, ok := range map[plane.Status]bool{"": true, plane.StatusError: true, "done": false, "' OR ''='": false} {
		if err := (store.Query{Status: status}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", status, err)
		}
	}
}

func TestOrphansAreOfOneNode(t *testing.T) {
	all, but, err := store.Orphans("n1", "boot2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, token := range []string{"n1/boot1/1", "n1/boot2/1", "n11/boot1/1", "n1"} {
		if strings.HasPrefix(token, all) && !strings.HasPrefix(token, but) {
			got = append(got, token)
		}
	}
	if !slices.Equal(got, []string{"n1/boot1/1"}) {
		t.Errorf("got %v", got)
	}
}
