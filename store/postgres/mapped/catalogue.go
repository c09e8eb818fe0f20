package mapped

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	// tableSQL: $1 the table's quoted name.
	tableSQL = `
		SELECT c.oid, n.nspname, c.relname, c.relkind IN ('r', 'p'), c.relpersistence = 'u', has_table_privilege(c.oid, 'DELETE'), quote_ident(current_user)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.oid = to_regclass($1)`

	// columnsSQL: $1 the table. One row a column, as found has it.
	columnsSQL = `
		SELECT a.attname, format_type(a.atttypid, a.atttypmod),
			CASE WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname ELSE '' END,
			quote_ident(n.nspname) || '.' || quote_ident(t.typname),
			CASE WHEN b.typname = 'varchar' THEN greatest(CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END - 4, 0) ELSE 0 END,
			(SELECT array_agg(e.enumlabel::text) FROM pg_enum e WHERE e.enumtypid = b.oid),
			a.attnotnull OR t.typnotnull,
			a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
			a.attgenerated <> '' OR a.attidentity = 'a',
			coalesce(k.collisdeterministic, true),
			coalesce(k.collname IN ('C', 'POSIX') OR k.collname = 'default' AND d.plain, false),
			EXISTS (
				SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
					AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum
			),
			has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
			has_column_privilege(a.attrelid, a.attnum, 'UPDATE'),
			has_column_privilege(a.attrelid, a.attnum, 'INSERT')
		FROM pg_attribute a
			JOIN pg_type t ON t.oid = a.atttypid
			JOIN pg_namespace n ON n.oid = t.typnamespace
			JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
			LEFT JOIN pg_collation k ON k.oid = a.attcollation,
			(SELECT datcollate IN ('C', 'POSIX') AND coalesce(to_jsonb(pg_database) ->> 'datlocprovider', 'c') = 'c' AS plain
				FROM pg_database WHERE datname = current_database()) d
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY a.attnum`

	// indexSQL: $1 the chunk table, $2 and $3 its columns for stream and seq.
	indexSQL = `
		SELECT EXISTS (
			SELECT FROM pg_index i
				JOIN pg_attribute s ON s.attrelid = i.indrelid AND s.attname = $2 AND s.attnum = i.indkey[0]
				JOIN pg_attribute o ON o.attrelid = i.indrelid AND o.attname = $3 AND o.attnum = i.indkey[1]
			WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL
		)`
)

// table is one as the catalogue has it.
type table struct {
	Oid       uint32
	Schema    string
	Name      string
	IsTable   bool
	Unlogged  bool
	Deletable bool
	User      string // who asks, as SQL has it

	columns map[string]found
	all     []found
}

// sql is the table's name with its schema, so that no search path matters.
func (t *table) sql() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// look answers a table, nil if there is none of that name.
func look(ctx context.Context, db querier, name string) (*table, error) {
	rows, err := db.Query(ctx, tableSQL, quoted(name))
	if err != nil {
		return nil, err
	}
	t, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (t table, err error) {
		err = row.Scan(&t.Oid, &t.Schema, &t.Name, &t.IsTable, &t.Unlogged, &t.Deletable, &t.User)
		return t, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if rows, err = db.Query(ctx, columnsSQL, t.Oid); err != nil {
		return nil, err
	}
	if t.all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[found]); err != nil {
		return nil, err
	}
	t.columns = make(map[string]found, len(t.all))
	for _, c := range t.all {
		t.columns[c.Name] = c
	}
	return &t, nil
}

// layout is an application's tables as they are.
type layout struct {
	names           Tables
	message, chunks *table
}

// lookUp answers the tables that t names, or all that is wrong with them.
func lookUp(ctx context.Context, db querier, t Tables) (l layout, err error) {
	l.names = t
	if err := refusal(t.check()); err != nil {
		return l, err
	}
	if l.message, err = look(ctx, db, t.Message); err != nil {
		return l, fmt.Errorf("look at table %q: %w", t.Message, err)
	}
	if l.chunks, err = look(ctx, db, t.Chunks); err != nil {
		return l, fmt.Errorf("look at table %q: %w", t.Chunks, err)
	}
	faults := l.check()
	if len(faults) == 0 {
		if fault, err := l.checkIndex(ctx, db); err != nil {
			return l, fmt.Errorf("look at the indexes of %q: %w", t.Chunks, err)
		} else if fault != "" {
			faults = append(faults, fault)
		}
		more, err := l.checkConstraints(ctx, db)
		if err != nil {
			return l, fmt.Errorf("look at the constraints of %q: %w", t.Message, err)
		}
		faults = append(faults, more...)
	}
	return l, refusal(faults)
}

// check answers what is wrong with the tables.
func (l *layout) check() (faults []string) {
	switch {
	case l.message == nil:
		faults = append(faults, fmt.Sprintf("there is no table %q for messages: create it, or name another", l.names.Message))
	case !l.message.IsTable:
		faults = append(faults, fmt.Sprintf("%q, named for messages, is no table: name the table behind it", l.names.Message))
	}
	switch {
	case l.chunks == nil:
		faults = append(faults, fmt.Sprintf("there is no table %q for chunks: %s", l.names.Chunks, strings.Join(l.names.ddl(), "; ")))
	case !l.chunks.IsTable:
		faults = append(faults, fmt.Sprintf("%q, named for chunks, is no table: name a table", l.names.Chunks))
	}
	if l.message != nil && l.chunks != nil && l.message.Oid == l.chunks.Oid {
		faults = append(faults, fmt.Sprintf("%q and %q are one table: give chunks a table of their own", l.names.Message, l.names.Chunks))
	}
	for _, t := range []*table{l.message, l.chunks} {
		if t != nil && t.Unlogged {
			faults = append(faults, fmt.Sprintf("table %q is unlogged, and so will be empty after a crash: ALTER TABLE %s SET LOGGED", t.Name, t.sql()))
		}
	}
	for _, c := range l.names.columns() {
		if t := l.of(c.role); t != nil && t.IsTable && *c.name != "" {
			faults = append(faults, l.checkColumn(t, c)...)
		}
	}
	return append(faults, append(l.checkRights(), l.checkOthers()...)...)
}

// of is the table of a role's column.
func (l *layout) of(r *role) *table {
	if r.chunks {
		return l.chunks
	}
	return l.message
}

func (l *layout) checkColumn(t *table, named column) (faults []string) {
	r, name := named.role, quote(*named.name)
	what := fmt.Sprintf("column %q of table %q, for %s,", *named.name, t.Name, r)
	add := func(format string, args ...any) {
		faults = append(faults, what+" "+fmt.Sprintf(format, args...))
	}
	alter := "ALTER TABLE " + t.sql()
	c, ok := t.columns[*named.name]
	if !ok {
		return []string{fmt.Sprintf("table %q has no column %q for %s: %s ADD COLUMN %s %s; or name another",
			t.Name, *named.name, r, alter, name, r.declared)}
	}
	kind, _, _ := strings.Cut(r.declared, " ")
	keyColumn := found{}
	if l.message != nil {
		keyColumn = l.message.columns[l.names.Key]
	}
	if must := r.kind.misfit(c, keyColumn); must != "" {
		add("is %s and must be %s: %s ALTER COLUMN %s TYPE %s USING %s::%[5]s", c.Type, must, alter, name, kind, name)
		return faults
	}
	if c.Generated {
		add("is generated, and so can't be written: name another")
	}
	switch r.kind {
	case key, stream, chunkKey:
		if !c.Deterministic {
			add(`has a collation in which different texts are equal: %s ALTER COLUMN %s TYPE text COLLATE "C"`, alter, name)
		}
		if r.kind != stream && !c.Unique {
			add("is not unique by itself: %s ADD UNIQUE (%s)", alter, name)
		}
	case length:
		if !c.NotNull {
			add("may be NULL: UPDATE %s SET %s = 0 WHERE %[2]s IS NULL; %s ALTER COLUMN %[2]s SET NOT NULL", t.sql(), name, alter)
		}
	case errorText:
		if c.NotNull {
			add("may not be NULL, which says that there was no error: %s ALTER COLUMN %s DROP NOT NULL", alter, name)
		}
	case status:
		for _, word := range words {
			if c.enum() && !slices.Contains(c.Labels, string(word)) {
				add("is an enum without '%s': ALTER TYPE %s ADD VALUE '%[1]s'", word, c.TypeName)
			}
		}
	}
	return faults
}

// checkRights answers what the role that asks may not do.
func (l *layout) checkRights() (faults []string) {
	may := map[*table]bool{l.message: true, l.chunks: l.chunks == nil || l.chunks.Deletable}
	for _, named := range l.names.columns() {
		t := l.of(named.role)
		if t == nil {
			continue
		}
		c, ok := t.columns[*named.name]
		switch {
		case !ok:
		case !c.Readable, named.role.chunks && !c.Insertable, !named.role.chunks && named.role.kind != key && !c.Updatable:
			may[t] = false
		}
	}
	for _, needs := range []struct {
		table  *table
		rights string
	}{{l.message, "SELECT, UPDATE"}, {l.chunks, "SELECT, INSERT, DELETE"}} {
		if t := needs.table; t != nil && !may[t] {
			faults = append(faults, fmt.Sprintf("role %s may not use table %q: GRANT %s ON %s TO %[1]s", t.User, t.Name, needs.rights, t.sql()))
		}
	}
	return faults
}

// checkOthers answers which other columns an insert of a chunk would have to
// fill.
func (l *layout) checkOthers() (faults []string) {
	if l.chunks == nil {
		return nil
	}
	ours := make(map[string]bool)
	for _, c := range l.names.columns() {
		ours[*c.name] = ours[*c.name] || c.role.chunks
	}
	for _, c := range l.chunks.all {
		if c.NotNull && !c.Filled && !ours[c.Name] {
			faults = append(faults, fmt.Sprintf("column %q of table %q, which is not named, may not be NULL and has no default: ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL",
				c.Name, l.chunks.Name, l.chunks.sql(), quote(c.Name)))
		}
	}
	return faults
}

// checkIndex answers that the text of a stream can't be found but by reading all.
func (l *layout) checkIndex(ctx context.Context, db querier) (fault string, err error) {
	rows, err := db.Query(ctx, indexSQL, l.chunks.Oid, l.names.ChunkStream, l.names.ChunkSeq)
	if err != nil {
		return "", err
	}
	there, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil || there {
		return "", err
	}
	return fmt.Sprintf("table %q has no index on (%q, %q): %s", l.chunks.Name, l.names.ChunkStream, l.names.ChunkSeq, l.names.ddl()[1]), nil
}
