package mapped

import (
	"strings"

	"rillkeep.dev/rillkeep/store/internal/pg"
)

// The SQL is written with names in braces, which statements puts in: a table, a
// column by its role, or a part that depends on what columns there are. Every
// parameter has its type written out, since a column's might be another.
//
// As in package postgres nothing that writes waits for a row that somebody else
// has locked, and a row is locked before it is compared, so that of two writes
// that overlap in time the second compares with what the first left.
const (
	// rowSQL is a plane.Row of m, as rows.Scan reads it. What is none of Rillkeep's
	// words counts as pending.
	rowSQL = `
		coalesce(m.{seq}, 0)::bigint AS seq,
		CASE WHEN m.{status} IN ('streaming', 'complete', 'cancelled', 'error', 'interrupted') THEN m.{status}::text ELSE 'pending' END AS status,
		{cancelled} AS cancel, {token} AS token, {epoch} AS epoch, {message of error} AS error`

	// elseRowSQL completes a write u that answers whether it was applied and the
	// row: if it was not, the row as it was when the statement began.
	elseRowSQL = `
		SELECT true, u.* FROM u
		UNION ALL
		SELECT false, {row} FROM {messages} m WHERE m.{id} = {key} AND NOT EXISTS (SELECT FROM u)`

	// openSQL: $1 id, with a host column $2 node/incarnation. A row is free to be
	// claimed if nothing is left of an earlier stream.
	openSQL = `
		WITH free AS (
			SELECT FROM {messages} m
			WHERE m.{id} = {key} AND {vacant} AND NOT EXISTS (SELECT FROM {chunks} c WHERE c.{stream} = {chunk's key})
			FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE {messages} m SET {status} = 'streaming'{claim}
			WHERE m.{id} = {key} AND {vacant} AND EXISTS (SELECT FROM free)
			RETURNING {row}
		)` + elseRowSQL

	// vacantSQL: status NULL is as good as pending.
	vacantSQL = `m.{status} IS DISTINCT FROM 'streaming' AND m.{seq} = 0 AND coalesce(m.{body}, '') = ''`

	// foundSQL: $1 id. A rows.Found, and the transaction that wrote the row.
	foundSQL = `
		SELECT {row}, m.{seq} IS NULL,
			coalesce(m.{body}, '') <> '' OR EXISTS (SELECT FROM {chunks} c WHERE c.{stream} = {chunk's key}), m.xmin::text
		FROM {messages} m WHERE m.{id} = {key}`

	// appendSQL: $1 id, $2 token, $3 from, $4 seq, $5 text. An application's trigger
	// may undo an update, or change it: what counts is what it returns.
	appendSQL = `
		WITH found AS (
			SELECT {row}, m.{seq} = $3::bigint AND {owned} AND m.{status} = 'streaming' AS fits
			FROM {messages} m WHERE m.{id} = {key} FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE {messages} m SET {seq} = $4::bigint WHERE m.{id} = {key} AND (SELECT fits FROM found) RETURNING {row}
		), i AS (
			INSERT INTO {chunks} ({chunk}, {stream}, {end}, {text})
			SELECT $1::text || ':' || $4::bigint, {chunk's key}, $4::bigint, $5::text FROM u WHERE seq = $4::bigint
		)
		SELECT * FROM u
		UNION ALL
		SELECT seq, status, cancel, token, epoch, error FROM found WHERE NOT EXISTS (SELECT FROM u)`

	// appendAllSQL is appendSQL over arrays, of as many streams: it answers for those
	// that it appended their number, from 1, cancel and epoch, and leaves out those
	// that are locked by others.
	appendAllSQL = `
		WITH slice AS (
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) WITH ORDINALITY AS s (id, token, start, stop, text, n)
		), found AS (
			SELECT s.n, s.id, s.stop, s.text, m.{seq} = s.start AND {owned by s} AND m.{status} = 'streaming' AS fits
			FROM slice s JOIN {messages} m ON m.{id} = {key of s}
			ORDER BY m.{id} FOR NO KEY UPDATE OF m SKIP LOCKED
		), u AS (
			UPDATE {messages} m SET {seq} = s.stop FROM found s WHERE m.{id} = {key of s} AND s.fits
			RETURNING s.n, s.id, s.stop, s.text, {cancelled} AS cancel, {epoch} AS epoch, m.{seq} = s.stop AS done
		), i AS (
			INSERT INTO {chunks} ({chunk}, {stream}, {end}, {text})
			SELECT s.id || ':' || s.stop, {chunk's key of s}, s.stop, s.text FROM u s WHERE s.done
		)
		SELECT n, cancel, epoch FROM u WHERE done`

	// cancelSQL: $1 id.
	cancelSQL = `
		WITH found AS (
			SELECT {row}, NOT {cancelled} AND {not ended} AS fits
			FROM {messages} m WHERE m.{id} = {key} FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE {messages} m SET {cancel} = true WHERE m.{id} = {key} AND (SELECT fits FROM found) RETURNING true
		)
		SELECT seq, status, cancel OR EXISTS (SELECT FROM u), token, epoch, error FROM found`

	notEndedSQL = `coalesce(m.{status} NOT IN ('complete', 'cancelled', 'error', 'interrupted'), true)`

	// lockSQL: $1 id, $2 token, $3 from, $4 seq. A seal takes the lock in a statement
	// of its own: the next one sees the chunks of an append that was committed
	// until now.
	lockSQL = `
		SELECT {row} FROM {messages} m
		WHERE m.{id} = {key} AND {owned} AND {within} AND m.{status} = 'streaming' FOR NO KEY UPDATE NOWAIT`

	// sealSQL: as lockSQL, and $5 body, $6 status, with an error column $7 error.
	sealSQL = `
		WITH u AS (
			UPDATE {messages} m
			SET {body} = $5::text, {seq} = $4::bigint{ending},
				{status} = (CASE WHEN {cancelled} AND $6::text = 'complete' THEN 'cancelled' ELSE $6::text END){as status}
			WHERE m.{id} = {key} AND {owned} AND {within} AND m.{status} = 'streaming'
			RETURNING {row}
		), d AS (
			DELETE FROM {chunks} c USING u WHERE c.{stream} = {chunk's key}
		)` + elseRowSQL

	// foldSQL: as sealSQL, but $5 is only the text from $3 on: the chunks hold what
	// comes before, $7 bytes; with an error column $8 error.
	foldSQL = `
		WITH held AS (
			SELECT string_agg(c.{text}::text, '' ORDER BY c.{end}) AS text FROM {chunks} c WHERE c.{stream} = {chunk's key}
		), u AS (
			UPDATE {messages} m
			SET {body} = held.text || $5::text, {seq} = $4::bigint{ending of a fold},
				{status} = (CASE WHEN {cancelled} AND $6::text = 'complete' THEN 'cancelled' ELSE $6::text END){as status}
			FROM held
			WHERE m.{id} = {key} AND {owned} AND m.{status} = 'streaming' AND m.{seq} = $3::bigint AND octet_length(held.text) = $7::bigint
			RETURNING {row}
		), d AS (
			DELETE FROM {chunks} c USING u WHERE c.{stream} = {chunk's key}
		)` + elseRowSQL

	// piecesSQL: $1 id. All of the text.
	piecesSQL = `
		SELECT coalesce(m.{body}, ''), c.ends, c.texts
		FROM {messages} m, LATERAL (
			SELECT array_agg(k.{end}::bigint ORDER BY k.{end}) AS ends, array_agg(k.{text} ORDER BY k.{end}) AS texts
			FROM {chunks} k WHERE k.{stream} = {chunk's key}
		) c
		WHERE m.{id} = {key}`

	// pageSQL: $1 id, $2 from, $3 limit. Of a body that is the whole text and has no
	// character beyond the first 65,536, where characters and offsets count the
	// same, what the page holds; else all of it. Of the chunks those from the one
	// that holds $2 to the one that holds $2+$3.
	pageSQL = `
		SELECT {row}, {has error}, CASE WHEN b.plain THEN $2::bigint ELSE 0 END,
			CASE WHEN b.plain THEN substr(m.{body}, least($2::bigint, m.{seq})::int + 1, $3::bigint::int + 1) ELSE coalesce(m.{body}, '') END,
			c.ends, c.texts
		FROM {messages} m,
			LATERAL (SELECT NOT {not ended} AND length(m.{body}) = m.{seq} AS plain) b,
			LATERAL (
				SELECT array_agg(k.{end}::bigint ORDER BY k.{end}) AS ends, array_agg(k.{text} ORDER BY k.{end}) AS texts
				FROM {chunks} k
				WHERE k.{stream} = {chunk's key} AND k.{end} > $2::bigint AND k.{end} <= coalesce(
					(SELECT min(l.{end}) FROM {chunks} l WHERE l.{stream} = {chunk's key} AND l.{end} >= $2::bigint + $3::bigint),
					9223372036854775807)
			) c
		WHERE m.{id} = {key}`

	chunksSQL = `SELECT c.{end}::bigint, c.{text}::text FROM {chunks} c WHERE c.{stream} = {chunk's key} ORDER BY c.{end}`

	// cutSQL: $1 id, $2 body, $3 seq, with an error column $4 error. Of a row that the
	// transaction holds: what lies beyond the hole is left as it is.
	cutSQL = `
		WITH d AS (DELETE FROM {chunks} c WHERE c.{stream} = {chunk's key} AND c.{end} <= $3::bigint)
		UPDATE {messages} m SET {body} = $2::text, {seq} = $3::bigint, {status} = 'interrupted'{ending of a cut}
		WHERE m.{id} = {key} RETURNING {row}`

	// cancelledSQL: $1 beginning of the token.
	cancelledSQL = `
		SELECT m.{id}::text FROM {messages} m
		WHERE m.{status} = 'streaming' AND m.{cancel} AND {of node} ORDER BY m.{id}`

	streamingSQL = `SELECT count(*) FROM {messages} m WHERE m.{status} = 'streaming'`

	readSQL = `SELECT {row} FROM {messages} m WHERE m.{id} = {key}`

	// readAllSQL: $1 ids.
	readAllSQL = `SELECT m.{id}::text, {row} FROM {messages} m WHERE m.{id} = ANY ({keys})`

	getSQL  = `SELECT m.{id}::text, {row}, {has error} FROM {messages} m WHERE m.{id} = {key}`
	listSQL = `SELECT m.{id}::text, {row}, {has error} FROM {messages} m WHERE m.{id} IS NOT NULL`
)

// statements are the SQL of one pair of tables. cancel, cancelled, unknown, disown,
// adopt, takeOver and sweep are only for those with the columns.
type statements struct {
	unknown, cancelled, streaming, disown, adopt, disowned, takeOver string
	sweep                                                            pg.SweepSQL

	open, found, append, appendAll, cancel, lock, seal, fold, chunks, pieces, page, cut, read, readAll, get, list string
}

// statements writes the SQL.
func (l *layout) statements() statements {
	parts, names := l.parts(), l.columnNames()
	put := func(sql string) string { return names.Replace(parts.Replace(sql)) }
	return statements{
		unknown: put(unknownSQL), cancelled: put(cancelledSQL), streaming: put(streamingSQL),
		disown: put(disownSQL), adopt: put(adoptSQL), disowned: put(disownedSQL), takeOver: put(takeOverSQL),
		sweep: pg.SweepSQL{Orphans: put(orphanedSQL), Texts: put(textsSQL), Seal: put(interruptedSQL), Cut: put(cutSQL)},
		open:  put(openSQL), found: put(foundSQL), append: put(appendSQL), appendAll: put(appendAllSQL), cancel: put(cancelSQL),
		lock: put(lockSQL), seal: put(sealSQL), fold: put(foldSQL), chunks: put(chunksSQL), pieces: put(piecesSQL), page: put(pageSQL),
		cut: put(cutSQL), read: put(readSQL), readAll: put(readAllSQL), get: put(getSQL), list: put(listSQL),
	}
}

// parts puts in what depends on which columns there are; those have names in
// braces themselves.
func (l *layout) parts() *strings.Replacer {
	one := func(there bool, sql, without string) string {
		if there {
			return sql
		}
		return without
	}
	host, cancel, message := l.names.Host != "", l.names.Cancel != "", l.names.Error != ""
	cancelled := one(cancel, "coalesce(m.{cancel}, false)", "false")
	token := one(host, "coalesce(m.{host}, '')", "''")
	// The epoch is the third part of an owner token. Without one the only one is the first.
	epoch := one(host, "coalesce(substring(m.{host} FROM '^[^/]*/[^/]*/([0-9]{1,18})(?:/|$)')::bigint, 0)", "1::bigint")
	text := one(message, "coalesce(m.{error}, '')", "''")
	row := strings.NewReplacer("{cancelled}", cancelled, "{token}", token, "{epoch}", epoch, "{message of error}", text).Replace(rowSQL)
	claim := one(host, ", {host} = $2::text || '/' || ("+epoch+" + 1)", "") +
		one(cancel, ", {cancel} = "+cancelled+" AND "+notEndedSQL, "") + one(message, ", {error} = NULL", "")
	return strings.NewReplacer(
		"{row}", row, "{epoch}", epoch, "{origins}", "coalesce(substring(m.{host} FROM '^[^/]*/[^/]*/[^/]*(/.*)'), '')", "{vacant}", vacantSQL, "{not ended}", notEndedSQL, "{cancelled}", cancelled, "{claim}", claim,
		"{ending}", one(message, ", {error} = $7::text", ""), "{ending of a fold}", one(message, ", {error} = $8::text", ""),
		"{ending of a cut}", one(message, ", {error} = $4::text", ""),
		"{has error}", one(message, "m.{error} IS NOT NULL", "false"),
		"{owned}", one(host, "m.{host} = $2::text", "$2::text IS NOT NULL"),
		"{of node}", one(host, "starts_with(m.{host}, $1::text)", "$1::text IS NOT NULL"),
		"{is owned}", strings.ReplaceAll(ownedSQL, "{owner}", ownerSQL), "{owner}", ownerSQL,
		"{owned by s}", one(host, "m.{host} = s.token", "true"),
		// Without tokens it is the length that tells a seal of this stream.
		"{within}", one(host, "m.{seq} <= $4::bigint AND $3::bigint <= $4::bigint", "m.{seq} BETWEEN $3::bigint AND $4::bigint"),
	)
}

// columnNames puts in the names of tables and columns, and the types that are
// theirs.
func (l *layout) columnNames() *strings.Replacer {
	pairs := []string{"{messages}", l.message.sql(), "{chunks}", l.chunks.sql()}
	for _, c := range l.names.columns() {
		brace := "{" + c.role.name + "}"
		switch {
		case c.role.chunks && c.role.name == "id":
			brace = "{chunk}"
		case c.role.chunks && c.role.name == "seq":
			brace = "{end}"
		}
		pairs = append(pairs, brace, quote(*c.name))
	}
	as := func(c found) string {
		if c.uuid() {
			return "::uuid"
		}
		return ""
	}
	array := func(cast string) string {
		if cast == "" {
			return ""
		}
		return cast + "[]"
	}
	key, stream := as(l.message.columns[l.names.Key]), as(l.chunks.columns[l.names.ChunkStream])
	status := ""
	if c := l.message.columns[l.names.Status]; c.enum() {
		status = "::" + c.TypeName
	}
	return strings.NewReplacer(append(pairs,
		"{key}", "$1::text"+key, "{key of s}", "s.id"+key, "{keys}", "$1::text[]"+array(key),
		"{chunk's key}", "$1::text"+stream, "{chunk's key of s}", "s.id"+stream, "{as status}", status,
	)...)
}
