package main

import (
	"maps"
	"slices"

	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// names are columns by their roles.
type names map[string]string

// chunkFlags name an application's chunk table.
type chunkFlags struct {
	Chunks       string `help:"Chunk table beside the application's messages." env:"RILLKEEP_CHUNKS" placeholder:"[SCHEMA.]NAME"`
	ChunkColumns names  `help:"Its columns, where they are not id, stream (streamId), seq and text." env:"RILLKEEP_CHUNK_COLUMNS" mapsep:"," placeholder:"ROLE=COLUMN,…"`
}

// tables are what is named, of the message table as well.
func (f chunkFlags) tables(message string, columns names) (mapped.Tables, error) {
	t := mapped.Tables{Message: message, Chunks: f.Chunks}
	for _, of := range []struct {
		chunks bool
		names  names
	}{{false, columns}, {true, f.ChunkColumns}} {
		for _, role := range slices.Sorted(maps.Keys(of.names)) {
			if err := t.Name(of.chunks, role, of.names[role]); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

type ddlCmd struct {
	chunkFlags
}

// Help is printed below the flags.
func (ddlCmd) Help() string {
	return `Examples:
  rillkeep ddl --chunks message_chunk | psql postgres://…
  rillkeep ddl --chunks app.message_chunk --chunk-columns stream=message_id,text=piece`
}

// Run prints the statements, which change nothing where they were run before.
func (d ddlCmd) Run(con *console) error {
	t, err := d.tables("", nil)
	if err != nil {
		return err
	}
	ddl, err := t.DDL()
	if err != nil {
		return err
	}
	return write(con.out, ddl)
}
