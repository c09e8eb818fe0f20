package mapped

import "rillkeep.dev/rillkeep/plane"

// role is what a column is for.
type role struct {
	chunks    bool   // of the chunk table
	name      string // what it is called for by Tables.Name
	byDefault string // its column; "" for a role that is left out unless it is named
	declared  string // how its column is best declared, beginning with the type
	kind      kind
}

// kind is what a role asks of a column.
type kind int

const (
	anyText kind = iota // any text fits
	key                 // a message's
	stream              // a message's key, in a chunk
	status
	length
	token
	flag
	errorText // NULL where there is none
	chunkKey
)

// roles are in the order of Tables.columns.
var roles = []role{
	{false, "id", "id", "text", key},
	{false, "body", "body", "text NOT NULL DEFAULT ''", anyText},
	{false, "status", "status", "text NOT NULL DEFAULT 'pending'", status},
	{false, "seq", "seq", "bigint NOT NULL DEFAULT 0", length},
	{false, "host", "", "text", token},
	{false, "cancel", "", "boolean NOT NULL DEFAULT false", flag},
	{false, "error", "", "text", errorText},
	{true, "id", "id", "text", chunkKey},
	{true, "stream", "streamId", "text", stream},
	{true, "seq", "seq", "bigint NOT NULL", length},
	{true, "text", "text", "text NOT NULL", anyText},
}

func (r *role) String() string {
	if r.chunks {
		return "a chunk's " + r.name
	}
	return "a message's " + r.name
}

// words are the statuses that are written.
var words = []plane.Status{
	plane.StatusStreaming, plane.StatusComplete, plane.StatusCancelled, plane.StatusError, plane.StatusInterrupted,
}

const (
	longestWord = len(plane.StatusInterrupted)
	tokenLength = 255 // characters that an owner token may have
)

// misfit says what the type of a column for k must be, if c's is not. keyColumn
// is the message table's key.
func (k kind) misfit(c, keyColumn found) string {
	var fits bool
	var must string
	switch k {
	case key:
		fits, must = c.textual() || c.uuid(), "text, varchar or uuid"
	case stream:
		fits = c.uuid() && keyColumn.uuid() || c.textual() && (c.Limit == 0 || keyColumn.Limit > 0 && c.Limit >= keyColumn.Limit)
		must = "text, or of the key's type"
	case status:
		fits = c.textual() && (c.Limit == 0 || c.Limit >= longestWord) || c.enum()
		must = "text, or an enum, that has Rillkeep's words"
	case length:
		fits, must = c.Base == "int8" || c.Base == "int4", "bigint or integer"
	case token:
		fits, must = c.textual() && (c.Limit == 0 || c.Limit >= tokenLength), "text, or varchar of 255 characters at least"
	case flag:
		fits, must = c.Base == "bool", "boolean"
	default:
		fits, must = c.textual() && c.Limit == 0, "text"
	}
	if fits {
		return ""
	}
	return must
}

// found is a column as the catalogue has it. The fields are in the order of
// columnsSQL.
type found struct {
	Name          string
	Type          string   // as it is declared
	Base          string   // the built-in type that it is, or that its domain is of: text, varchar, uuid, int8, …
	TypeName      string   // as SQL has it anywhere
	Limit         int      // characters of a varchar(n); 0 if there is none
	Labels        []string // of an enum
	NotNull       bool
	Filled        bool // by itself where nothing is inserted
	Generated     bool // nobody may write it
	Deterministic bool // no two different texts are equal
	Bytewise      bool // texts are in the order of their bytes
	Unique        bool // by itself
	Readable      bool
	Updatable     bool
	Insertable    bool
}

func (c found) textual() bool { return c.Base == "text" || c.Base == "varchar" }

func (c found) uuid() bool { return c.Base == "uuid" }

func (c found) enum() bool { return len(c.Labels) > 0 }
