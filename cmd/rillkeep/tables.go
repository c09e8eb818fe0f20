package main

import (
	"maps"
	"slices"

	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// names are columns by their roles.
type names map[string]string

// tableFlags name an application's tables.
type tableFlags struct {
	Table        string `help:"Message table of an application: keep streams in its rows, instead of in tables of Rillkeep's own. See also rillkeep ddl." env:"RILLKEEP_TABLE" placeholder:"[SCHEMA.]NAME"`
	Columns      names  `help:"Its columns, where they are not id, body, status and seq; and those for host, cancel and error, which are not used unless they are named." env:"RILLKEEP_COLUMNS" mapsep:"," placeholder:"ROLE=COLUMN,…"`
	Chunks       string `help:"Chunk table beside the application's messages." env:"RILLKEEP_CHUNKS" placeholder:"[SCHEMA.]NAME"`
	ChunkColumns names  `help:"Its columns, where they are not id, stream (streamId), seq and text." env:"RILLKEEP_CHUNK_COLUMNS" mapsep:"," placeholder:"ROLE=COLUMN,…"`
}

// tables are what is named.
func (f tableFlags) tables() (mapped.Tables, error) {
	t := mapped.Tables{Message: f.Table, Chunks: f.Chunks}
	for _, of := range []struct {
		chunks bool
		names  names
	}{{false, f.Columns}, {true, f.ChunkColumns}} {
		for _, role := range slices.Sorted(maps.Keys(of.names)) {
			if err := t.Name(of.chunks, role, of.names[role]); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

type ddlCmd struct {
	tableFlags
}

// Help is printed below the flags.
func (ddlCmd) Help() string {
	return `It takes the names that serve takes, so that one set of flags or one environment does
for both. Those that the statements do not need are checked all the same.

Examples:
  rillkeep ddl --chunks message_chunk | psql postgres://…
  rillkeep ddl --table message --chunks message_chunk --columns host=stream_host
  rillkeep ddl --chunks app.message_chunk --chunk-columns stream=message_id,text=piece`
}

// Run prints the statements, which change nothing where they were run before.
func (d ddlCmd) Run(con *console) error {
	t, err := d.tables()
	if err != nil {
		return err
	}
	if d.Table != "" {
		if err := t.Validate(); err != nil {
			return err
		}
	}
	ddl, err := t.DDL()
	if err != nil {
		return err
	}
	return write(con.out, ddl)
}
