package postgres

import (
	"strconv"
	"strings"

	"rillkeep.dev/rillkeep/store/internal/rows"
)

// What writes waits for a row that somebody else has locked hardly or not at all: a
// call that waits keeps a connection, and a few such rows would have all of them.
const (
	// elseRow completes a write u that answers whether it was applied and the
	// row: if it was not, the row as it was when the statement began.
	elseRow = `
		SELECT true, u.* FROM u
		UNION ALL
		SELECT false, ` + rows.Columns + ` FROM rillkeep.streams WHERE id = $1 AND NOT EXISTS (SELECT FROM u)`

	// elseClaimed is elseRow of rows.Claimed.
	elseClaimed = `
		SELECT true, u.* FROM u
		UNION ALL
		SELECT false, ` + rows.Claimed + ` FROM rillkeep.streams WHERE id = $1 AND NOT EXISTS (SELECT FROM u)`

	// openSQL: $1 id, $2 node/incarnation, $3 producer, $4 meta. A row that may
	// be claimed has no chunks; nor may an earlier stream of the id have left
	// any. Its epoch is above those of deleted rows, whose id it may have. What
	// the claim does not say stays as an application wrote it. An insert waits for one of the same id that is not committed yet, as long as
	// lock_timeout lets it.
	openSQL = `
		WITH free AS (
			SELECT FROM rillkeep.streams
			WHERE id = $1 AND status <> 'streaming' AND seq = 0 AND body = '' FOR NO KEY UPDATE NOWAIT
		), u AS (
			INSERT INTO rillkeep.streams AS s (id, status, host, epoch, producer, meta)
			SELECT $1, 'streaming', $2::text || '/' || (deleted.epoch + 1), deleted.epoch + 1, nullif($3, ''), $4::json
			FROM (SELECT coalesce(max(epoch), 0) AS epoch FROM rillkeep.epochs) deleted -- one row, whoever emptied the table
			WHERE NOT EXISTS (SELECT FROM rillkeep.chunks WHERE stream_id = $1)
				AND (EXISTS (SELECT FROM free) OR NOT EXISTS (SELECT FROM rillkeep.streams WHERE id = $1))
			ON CONFLICT (id) DO UPDATE
			SET status = 'streaming', epoch = greatest(s.epoch + 1, excluded.epoch), host = $2 || '/' || greatest(s.epoch + 1, excluded.epoch),
				cancel = s.cancel AND s.status = 'pending', error = NULL,
				producer = coalesce(excluded.producer, s.producer), meta = coalesce(excluded.meta, s.meta),
				updated_at = now(), ended_at = NULL
			WHERE s.status <> 'streaming' AND s.seq = 0 AND s.body = ''
			RETURNING ` + rows.Claimed + `
		)` + elseClaimed

	foundSQL = `
		SELECT ` + rows.Claimed + `, body <> '' OR EXISTS (SELECT FROM rillkeep.chunks WHERE stream_id = $1)
		FROM rillkeep.streams WHERE id = $1`

	// appendSQL: $1 id, $2 token, $3 from, $4 seq, $5 text. The row is locked
	// before it is compared, so that of two that overlap in time the second
	// compares with what the first left.
	appendSQL = `
		WITH found AS (
			SELECT seq, status, cancel, host, epoch, error, seq = $3 AND host = $2 AND status = 'streaming' AS fits
			FROM rillkeep.streams WHERE id = $1 FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE rillkeep.streams SET seq = $4, updated_at = now() WHERE id = $1 AND (SELECT fits FROM found)
		), i AS (
			INSERT INTO rillkeep.chunks (stream_id, seq, text) SELECT $1, $4, $5 FROM found WHERE fits
		)
		SELECT ` + rows.Columns + `
		FROM (SELECT CASE WHEN fits THEN $4 ELSE seq END AS seq, status, cancel, host, epoch, error FROM found) r`

	// appendNowSQL is appendSQL for a row that nobody is known to have locked: it
	// takes the lock by writing, which is cheaper, and waits for it as long as
	// lock_timeout lets it. It answers a row only if it has appended.
	appendNowSQL = `
		WITH u AS (
			UPDATE rillkeep.streams SET seq = $4, updated_at = now()
			WHERE id = $1 AND seq = $3 AND host = $2 AND status = 'streaming'
			RETURNING seq, status, cancel, host, epoch, error
		), i AS (
			INSERT INTO rillkeep.chunks (stream_id, seq, text) SELECT $1, $4, $5 FROM u
		)
		SELECT ` + rows.Columns + ` FROM u`

	// appendsSQL is appendNowSQL for many: $1 ids, $2 tokens, $3 froms, $4 seqs,
	// $5 texts.
	appendsSQL = `
		WITH u AS (
			UPDATE rillkeep.streams s SET seq = r.seq, updated_at = now()
			FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
				WITH ORDINALITY AS r (id, host, start, seq, text, n)
			WHERE s.id = r.id AND s.seq = r.start AND s.host = r.host AND s.status = 'streaming'
			RETURNING r.n, s.id, s.seq, s.cancel, s.epoch, r.text
		), i AS (
			INSERT INTO rillkeep.chunks (stream_id, seq, text) SELECT id, seq, text FROM u
		)
		SELECT n, cancel, epoch FROM u`

	// appendsFreeSQL is appendsSQL for those whose row nobody has locked.
	appendsFreeSQL = `
		WITH found AS (
			SELECT r.n, r.id, r.seq, r.text, s.cancel, s.epoch,
				s.seq = r.start AND s.host = r.host AND s.status = 'streaming' AS fits
			FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
				WITH ORDINALITY AS r (id, host, start, seq, text, n)
			JOIN rillkeep.streams s ON s.id = r.id
			FOR NO KEY UPDATE OF s SKIP LOCKED
		), u AS (
			UPDATE rillkeep.streams s SET seq = found.seq, updated_at = now() FROM found WHERE s.id = found.id AND fits
		), i AS (
			INSERT INTO rillkeep.chunks (stream_id, seq, text) SELECT id, seq, text FROM found WHERE fits
		)
		SELECT n, cancel, epoch FROM found WHERE fits`

	readAllSQL = `SELECT id, ` + rows.Columns + ` FROM rillkeep.streams WHERE id = ANY($1)`

	cancelSQL = `
		WITH found AS (
			SELECT seq, status, cancel, host, epoch, error, NOT cancel AND status IN ('pending', 'streaming') AS fits
			FROM rillkeep.streams WHERE id = $1 FOR NO KEY UPDATE NOWAIT
		), u AS (
			UPDATE rillkeep.streams SET cancel = true, updated_at = now() WHERE id = $1 AND (SELECT fits FROM found)
		)
		SELECT ` + rows.Columns + `
		FROM (SELECT seq, status, cancel OR fits AS cancel, host, epoch, error FROM found) r`

	// lockSQL: $1 id, $2 token, $3 the length that it is to have. A seal takes the
	// lock in a statement of its own: the next one sees the chunks of an append that
	// was committed until now. None makes a text shorter.
	lockSQL = `
		SELECT ` + rows.Columns + ` FROM rillkeep.streams
		WHERE id = $1 AND host = $2 AND status = 'streaming' AND seq <= $3 FOR NO KEY UPDATE NOWAIT`

	// sealSQL: $1 id, $2 token, $3 body, $4 marks, $5 seq, $6 status, $7 error, $8 meta.
	sealSQL = `
		WITH u AS (
			UPDATE rillkeep.streams
			SET body = $3, marks = $4, seq = $5, error = $7, meta = coalesce($8::json, meta), updated_at = now(), ended_at = now(),
				status = CASE WHEN cancel AND $6::text = 'complete' THEN 'cancelled' ELSE $6 END
			WHERE id = $1 AND host = $2 AND status = 'streaming' AND seq <= $5
			RETURNING ` + rows.Columns + `
		), d AS (
			DELETE FROM rillkeep.chunks c USING u WHERE c.stream_id = $1
		)` + elseRow

	// foldSQL: as sealSQL, but $3 is only the text from offset $9 on: the chunks
	// hold what comes before, $10 bytes.
	foldSQL = `
		WITH held AS (
			SELECT string_agg(text, '' ORDER BY seq) AS text FROM rillkeep.chunks WHERE stream_id = $1
		), u AS (
			UPDATE rillkeep.streams
			SET body = held.text || $3, marks = $4, seq = $5, error = $7, meta = coalesce($8::json, meta), updated_at = now(), ended_at = now(),
				status = CASE WHEN cancel AND $6::text = 'complete' THEN 'cancelled' ELSE $6 END
			FROM held
			WHERE id = $1 AND host = $2 AND status = 'streaming' AND seq = $9 AND octet_length(held.text) = $10
			RETURNING ` + rows.Columns + `
		), d AS (
			DELETE FROM rillkeep.chunks c USING u WHERE c.stream_id = $1
		)` + elseRow

	// piecesSQL: $1 id. All of the text.
	piecesSQL = `
		SELECT body, c.ends, c.texts
		FROM rillkeep.streams, LATERAL (
			SELECT array_agg(seq ORDER BY seq) AS ends, array_agg(text ORDER BY seq) AS texts
			FROM rillkeep.chunks WHERE stream_id = $1
		) c
		WHERE id = $1`

	chunksSQL = `SELECT seq, text FROM rillkeep.chunks WHERE stream_id = $1 ORDER BY seq`

	// cutSQL: $1 id, $2 body, $3 marks, $4 seq, $5 error, $6 meta. Of a row that the
	// transaction holds: what lies beyond the hole is left as it is.
	cutSQL = `
		WITH d AS (DELETE FROM rillkeep.chunks WHERE stream_id = $1 AND seq <= $4)
		UPDATE rillkeep.streams
		SET body = $2, marks = $3, seq = $4, status = 'interrupted', error = $5, meta = coalesce($6::json, meta), updated_at = now(), ended_at = now()
		WHERE id = $1 RETURNING ` + rows.Columns + ``

	readSQL = `SELECT ` + rows.Columns + ` FROM rillkeep.streams WHERE id = $1`
	getSQL  = `SELECT ` + rows.StreamColumns + ` FROM rillkeep.streams WHERE id = $1`
	listSQL = `SELECT ` + rows.StreamColumns + ` FROM rillkeep.streams`
)

// pageSQL: $1 id, $2 from, $3 limit. Of the body what lies between the mark
// below $2 and enough characters to hold the page; of the chunks those from the
// one that holds $2 to the one that holds $2+$3. The server unpacks a body up to
// the page, which is nothing to notice below a megabyte; what it sends is the
// page. A database without an encoding counts bytes: of it comes all of the body.
var pageSQL = strings.ReplaceAll(`
	SELECT `+rows.Columns+`, error IS NOT NULL,
		coalesce(marks[b.mark], 0),
		CASE WHEN b.mark IS NULL THEN body ELSE substr(body, b.mark * EVERY + 1, $3::bigint::int + EVERY + 1) END,
		c.ends, c.texts
	FROM rillkeep.streams,
		LATERAL (SELECT CASE WHEN getdatabaseencoding() <> 'SQL_ASCII' THEN width_bucket($2::bigint, marks) END AS mark) b,
		LATERAL (
			SELECT array_agg(k.seq ORDER BY k.seq) AS ends, array_agg(k.text ORDER BY k.seq) AS texts
			FROM rillkeep.chunks k
			WHERE k.stream_id = $1 AND k.seq > $2 AND k.seq <= coalesce(
				(SELECT min(l.seq) FROM rillkeep.chunks l WHERE l.stream_id = $1 AND l.seq >= $2 + $3::bigint),
				9223372036854775807)
		) c
	WHERE id = $1`, "EVERY", strconv.Itoa(rows.MarkEvery))

// statements are the SQL with the schema's name in it.
type statements struct {
	open, found, append, appendNow, appends, appendsFree, cancel, lock, seal, fold, chunks, pieces, cut string
	read, readAll, get, list, page, disown, adopt, takeOver                                             string
}

func (s *Store) statements() statements {
	return statements{
		open: s.sql(openSQL), found: s.sql(foundSQL), append: s.sql(appendSQL), appendNow: s.sql(appendNowSQL),
		appends: s.sql(appendsSQL), appendsFree: s.sql(appendsFreeSQL), cancel: s.sql(cancelSQL),
		lock: s.sql(lockSQL), seal: s.sql(sealSQL), fold: s.sql(foldSQL), chunks: s.sql(chunksSQL), pieces: s.sql(piecesSQL), cut: s.sql(cutSQL),
		read: s.sql(readSQL), readAll: s.sql(readAllSQL), get: s.sql(getSQL), list: s.sql(listSQL), page: s.sql(pageSQL),
		disown: s.sql(disownSQL), adopt: s.sql(adoptSQL), takeOver: s.sql(takeOverSQL),
	}
}
