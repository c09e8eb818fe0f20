package mapped_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// vector is a recorded case about tables.
type vector struct {
	Name, Kind string
	Schema     map[string][]string // columns by table
	Tables     struct {
		Message, Chunks string
		Columns         map[string]string
	}
	Options struct {
		Columns map[string]string
	}
	StreamID string
	Seq      int64
	Out      json.RawMessage
}

// departures are where ours is not what was recorded, with the reason.
var departures = map[string]string{
	"schema/cancel-present-as-body": "no column is two things, and a text is no flag: refused",
	"chunk-id/empty-0":              "an id has a byte at least, a chunk a unit: not run",
	"chunk-id/漢-9007199254740991":   "no text is that long: not run",
}

func TestRecordedAnswersAreOurs(t *testing.T) {
	data, err := os.ReadFile("testdata/http.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Count int
		Cases []vector
	}
	if err := json.Unmarshal(data, &all); err != nil || len(all.Cases) != all.Count {
		t.Fatalf("%d of %d cases, %v", len(all.Cases), all.Count, err)
	}
	for _, v := range all.Cases {
		t.Run(v.Name, func(t *testing.T) {
			switch v.Kind {
			case "schema":
				v.schema(t)
			case "ddl":
				v.ddl(t)
			case "chunk-id":
				v.chunkID(t)
			case "construct":
				v.construct(t)
			default:
				t.Fatalf("no such kind: %s", v.Kind)
			}
		})
	}
}

// names are the case's tables.
func (v vector) names() mapped.Tables {
	c := v.Tables.Columns
	return mapped.Tables{
		Message: v.Tables.Message, Chunks: v.Tables.Chunks, Cancel: c["cancel"],
		ChunkKey: c["chunkKey"], ChunkStream: c["chunkStream"], ChunkSeq: c["chunkSeq"], ChunkText: c["chunkText"],
	}
}

// schema opens tables that have the case's columns.
func (v vector) schema(t *testing.T) {
	types := map[string]string{"seq": "bigint NOT NULL", "id": "text PRIMARY KEY"}
	url := pgtest.URL(t)
	db := raw(t, url)
	for table, columns := range v.Schema {
		var list []string
		for _, column := range columns {
			list = append(list, pgx.Identifier{column}.Sanitize()+" "+cmp.Or(types[column], "text"))
		}
		exec(t, db, "CREATE TABLE "+table+" ("+strings.Join(list, ", ")+")")
	}
	exec(t, db, `CREATE INDEX ON message_chunk ("streamId", seq)`)
	if string(v.Out) == `"ok"` && departures[v.Name] == "" {
		shut(t, open(t, url, v.names()))
		return
	}
	var out struct{ Table, Column, Role string }
	if departures[v.Name] == "" {
		if err := json.Unmarshal(v.Out, &out); err != nil {
			t.Fatal(err)
		}
	}
	said := refused(t, url, v.names())
	for _, want := range []string{out.Table, out.Column, out.Role} {
		if len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("said %q, want %q in it", said, want)
		}
	}
}

// ddl compares the statements, whose types are PostgreSQL's.
func (v vector) ddl(t *testing.T) {
	got, err := v.names().DDL()
	var want []string
	if json.Unmarshal(v.Out, &want) != nil {
		if !errors.Is(err, plane.ErrConfig) || got != "" {
			t.Errorf("got %q, %v", got, err)
		}
		return
	}
	ours := strings.NewReplacer("TEXT", "text", "INTEGER", "bigint").Replace(strings.Join(want, ";\n") + ";\n")
	if err != nil || got != ours {
		t.Errorf("got %q, %v, want %q", got, err, ours)
	}
}

// chunkID looks at the key of the row that holds a checkpoint.
func (v vector) chunkID(t *testing.T) {
	if departures[v.Name] != "" {
		return
	}
	s, app := full.open(t)
	app.exec("INSERT INTO {messages} ({id}) VALUES ($1)", v.StreamID)
	appended(t, s, v.StreamID, claim(t, s, v.StreamID), strings.Repeat("x", int(v.Seq)))
	var got, want string
	if err := app.db.QueryRow(t.Context(), app.sql("SELECT {chunk} FROM {chunks}")).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(v.Out, &want); err != nil || got != want {
		t.Errorf("got %q, want %q (%v)", got, want, err)
	}
}

// construct opens tables with the case's columns beside those that must be.
func (v vector) construct(t *testing.T) {
	url := pgtest.URL(t)
	anew(t, raw(t, url))
	shut(t, open(t, url, mapped.Tables{Message: "message", Chunks: "message_chunk", Host: v.Options.Columns["host"]}))
}
