package mapped

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// Tables names an application's tables and their columns. A name is taken as it
// is, capitals, spaces and reserved words included; a quotation mark (") or NUL
// in one is refused, and so is one that is longer than the 63 bytes that
// PostgreSQL keeps. A table's name may begin with its schema and a dot; without,
// the search path of the connection finds it, once, at the start.
type Tables struct {
	Message string // required
	Chunks  string // required

	// Columns of the message table. The last three have no default: no SQL touches
	// them unless they are named.
	Key    string // text, varchar or uuid, unique; "" means id
	Body   string // text; "" means body
	Status string // text, varchar or an enum that has Rillkeep's words; "" means status
	Seq    string // bigint or integer, NOT NULL; "" means seq
	Host   string // text: the owner token
	Cancel string // boolean: the cancel flag
	Error  string // text: the message of a stream that ended with an error

	// Columns of the chunk table.
	ChunkKey    string // text, unique; "" means id
	ChunkStream string // text, or as Key; "" means streamId
	ChunkSeq    string // bigint or integer; "" means seq
	ChunkText   string // text; "" means text
}

// withDefaults answers t with all names that have a default.
func (t Tables) withDefaults() Tables {
	for _, c := range t.columns() {
		if *c.name == "" {
			*c.name = c.role.byDefault
		}
	}
	return t
}

// column is one that t names, or may name.
type column struct {
	role *role
	name *string
}

// columns answers all columns, in the order of roles.
func (t *Tables) columns() []column {
	names := []*string{
		&t.Key, &t.Body, &t.Status, &t.Seq, &t.Host, &t.Cancel, &t.Error,
		&t.ChunkKey, &t.ChunkStream, &t.ChunkSeq, &t.ChunkText,
	}
	all := make([]column, len(names))
	for n, name := range names {
		all[n] = column{&roles[n], name}
	}
	return all
}

// Name gives a column of the message table, or of the chunk table, its name by
// its role: of the one id, body, status, seq, host, cancel and error, of the
// other id, stream, seq and text.
func (t *Tables) Name(chunks bool, role, name string) error {
	var known []string
	for _, c := range t.columns() {
		if c.role.chunks != chunks {
			continue
		}
		if c.role.name == role && name == "" {
			return fmt.Errorf("%w: %s has a column without a name", plane.ErrConfig, c.role)
		}
		if c.role.name == role {
			*c.name = name
			return nil
		}
		known = append(known, c.role.name)
	}
	return fmt.Errorf("%w: %q is no role of a column; the roles are %s", plane.ErrConfig, role, strings.Join(known, ", "))
}

// Validate reports what is wrong with the names by themselves, without a look at
// the database: a plane.ErrConfig that lists every fault.
func (t Tables) Validate() error { return refusal(t.withDefaults().check()) }

// check answers what is wrong with the names by themselves.
func (t Tables) check() []string {
	faults := append(checkTable("messages", t.Message), checkTable("chunks", t.Chunks)...)
	if t.Message == t.Chunks && t.Message != "" {
		faults = append(faults, fmt.Sprintf("table %q is named for messages and for chunks: give chunks a table of their own", t.Message))
	}
	return append(faults, t.checkColumns()...)
}

func checkTable(role, name string) (faults []string) {
	if name == "" {
		return []string{"no table is named for " + role}
	}
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		faults = append(faults, fmt.Sprintf("table %q for %s: at most a schema and a dot come before a table's name", name, role))
	}
	for _, part := range parts {
		faults = appendFault(faults, checkName(part), "table %q for %s", name, role)
	}
	return faults
}

func (t Tables) checkColumns() (faults []string) {
	type place struct {
		chunks bool
		name   string
	}
	taken := make(map[place]string)
	for _, c := range t.columns() {
		if *c.name == "" {
			continue
		}
		faults = appendFault(faults, checkName(*c.name), "column %q for %s", *c.name, c.role)
		at := place{c.role.chunks, *c.name}
		if other, twice := taken[at]; twice {
			faults = append(faults, fmt.Sprintf("column %q is named for %s and for %s: each needs one of its own", *c.name, other, c.role))
		}
		taken[at] = c.role.String()
	}
	return faults
}

func appendFault(faults []string, fault, format string, args ...any) []string {
	if fault == "" {
		return faults
	}
	return append(faults, fmt.Sprintf(format, args...)+": "+fault)
}

// checkName says why a name can't be quoted.
func checkName(name string) string {
	switch {
	case name == "":
		return "a part of the name is empty"
	case strings.ContainsAny(name, "\"\x00"):
		return "a name with a quotation mark or NUL in it is refused"
	case len(name) > pg.MaxName:
		return fmt.Sprintf("a name has at most %d bytes", pg.MaxName)
	case !utf8.ValidString(name):
		return "a name is UTF-8"
	default:
		return ""
	}
}

// refusal is the error of all faults at once.
func refusal(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: tables of the application:\n  %s", plane.ErrConfig, strings.Join(slices.Compact(faults), "\n  "))
}

// quoted is a table's or a column's name as SQL has it.
func quoted(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// quote is one name, in which a dot is a dot.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// DDL answers the statements that make the chunk table, and, where a host column is
// named, the index by which the rows of nodes that are gone are found without
// reading through the message table. Each may be run again. Without a host column
// the message table need not be named.
func (t Tables) DDL() (string, error) {
	t = t.withDefaults()
	faults := append(checkTable("chunks", t.Chunks), t.checkColumns()...)
	if t.Host != "" {
		faults = append(faults, checkTable("messages", t.Message)...)
	}
	if err := refusal(faults); err != nil {
		return "", err
	}
	statements := t.ddl()
	if t.Host != "" {
		statements = append(statements, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s) WHERE %s = 'streaming'",
			quote(indexName(t.Message, "_streaming")), quoted(t.Message), quote(t.Host), quote(t.Status)))
	}
	return strings.Join(statements, ";\n") + ";\n", nil
}

func (t Tables) ddl() []string {
	table, stream, seq := quoted(t.Chunks), quote(t.ChunkStream), quote(t.ChunkSeq)
	return []string{
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s text PRIMARY KEY, %s text NOT NULL, %s bigint NOT NULL, %s text NOT NULL)",
			table, quote(t.ChunkKey), stream, seq, quote(t.ChunkText)),
		fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s, %s)", quote(indexName(t.Chunks, "_stream_seq")), table, stream, seq),
	}
}

// indexName is an index's of a table, which is not cut short: what is left might be
// the table's name.
func indexName(table, suffix string) string {
	name := table[strings.LastIndexByte(table, '.')+1:]
	for len(name)+len(suffix) > pg.MaxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}
