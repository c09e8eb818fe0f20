package mapped_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestNamesThatCannotBeQuotedAreRefusedBeforeAnyConnection(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*mapped.Tables)
		want string
	}{
		"a quotation mark in a table":  {func(n *mapped.Tables) { n.Message = `mess"age` }, `table "mess\"age" for messages: a name with a quotation mark`},
		"one in a schema":              {func(n *mapped.Tables) { n.Chunks = `a"b.chunk` }, "a name with a quotation mark"},
		"one in a column":              {func(n *mapped.Tables) { n.Body = `b" = ''; --` }, "for a message's body: a name with a quotation mark"},
		"one in an optional column":    {func(n *mapped.Tables) { n.Error = `"` }, "for a message's error: a name with a quotation mark"},
		"NUL in a column":              {func(n *mapped.Tables) { n.ChunkText = "te\x00xt" }, "for a chunk's text: a name with a quotation mark or NUL"},
		"no message table":             {func(n *mapped.Tables) { n.Message = "" }, "no table is named for messages"},
		"no chunk table":               {func(n *mapped.Tables) { n.Chunks = "" }, "no table is named for chunks"},
		"a schema without a table":     {func(n *mapped.Tables) { n.Chunks = "app." }, "a part of the name is empty"},
		"a database before the schema": {func(n *mapped.Tables) { n.Message = "db.app.message" }, "at most a schema and a dot"},
		"a name that is cut short":     {func(n *mapped.Tables) { n.Seq = strings.Repeat("é", 32) }, "at most 63 bytes"},
		"a name that is no text":       {func(n *mapped.Tables) { n.Seq = "\xff" }, "a name is UTF-8"},
		"one table for both":           {func(n *mapped.Tables) { n.Chunks = n.Message }, `table "message" is named for messages and for chunks`},
		"one column for two":           {func(n *mapped.Tables) { n.Cancel = "status" }, `column "status" is named for a message's status and for a message's cancel`},
	} {
		tables := full.tables
		c.edit(&tables)
		_, err := mapped.Open(t.Context(), "postgres://nowhere.invalid/x", "", tables)
		if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestColumnsAreNamedByTheirRoles(t *testing.T) {
	var got mapped.Tables
	for role, name := range map[string]string{"id": "a", "body": "b", "status": "c", "seq": "d", "host": "e", "cancel": "f", "error": "g"} {
		if err := got.Name(false, role, name); err != nil {
			t.Error(err)
		}
	}
	for role, name := range map[string]string{"id": "h", "stream": "i", "seq": "j", "text": "k"} {
		if err := got.Name(true, role, name); err != nil {
			t.Error(err)
		}
	}
	want := mapped.Tables{
		Key: "a", Body: "b", Status: "c", Seq: "d", Host: "e", Cancel: "f", Error: "g",
		ChunkKey: "h", ChunkStream: "i", ChunkSeq: "j", ChunkText: "k",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Name(false, "host", ""); !errors.Is(err, plane.ErrConfig) {
		t.Errorf("no name: %v", err)
	}
	err := got.Name(true, "host", "x")
	if !errors.Is(err, plane.ErrConfig) || !strings.Contains(err.Error(), "the roles are id, stream, seq, text") {
		t.Errorf("got %v", err)
	}
}

// The index of a table whose name is long would be cut to the table's own name,
// and so not be made.
func TestTheDDLOfALongNameMakesTheIndexToo(t *testing.T) {
	url := pgtest.URL(t)
	db := raw(t, url)
	anew(t, db)
	tables := full.tables
	tables.Message = "public." + strings.Repeat("m", 63)
	exec(t, db, "CREATE TABLE "+tables.Message+" (LIKE message INCLUDING ALL)")
	for _, name := range []string{strings.Repeat("c", 63), strings.Repeat("é", 31) + "x", "public." + strings.Repeat("d", 60)} {
		tables.Chunks = name
		ddl, err := tables.DDL()
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, ddl)
		shut(t, open(t, url, tables))
	}
	var made int
	err := db.QueryRow(t.Context(), "SELECT count(*) FROM pg_indexes WHERE indexname = repeat('m', 53) || '_streaming'").Scan(&made)
	if err != nil || made != 1 {
		t.Errorf("%d indexes of streaming rows, %v", made, err)
	}
}
