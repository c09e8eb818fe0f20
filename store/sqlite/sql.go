package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	readSQL    = `SELECT ` + rows.Columns + ` FROM streams WHERE id = ?1`
	claimedSQL = `SELECT ` + rows.Claimed + ` FROM streams WHERE id = ?1`

	foundSQL = `
		SELECT ` + rows.Claimed + `, body <> '' OR EXISTS (SELECT 1 FROM chunks WHERE stream_id = ?1)
		FROM streams WHERE id = ?1`

	leftSQL = `SELECT EXISTS (SELECT 1 FROM chunks WHERE stream_id = ?1)`

	deletedSQL = `SELECT epoch FROM epochs`

	// createSQL: ?1 id, ?2 token, ?3 epoch, ?4 producer, ?5 meta, ?6 now.
	createSQL = `
		INSERT INTO streams (id, status, host, epoch, producer, meta, created_at, updated_at)
		VALUES (?1, 'streaming', ?2, ?3, nullif(?4, ''), ?5, ?6, ?6)`

	// claimSQL: ?1 id, ?2 token, ?3 epoch, ?4 producer, ?5 meta, ?6 now. What
	// the claim does not say stays as an application wrote it.
	claimSQL = `
		UPDATE streams
		SET status = 'streaming', host = ?2, epoch = ?3, cancel = (cancel AND status = 'pending'), error = NULL,
			producer = coalesce(nullif(?4, ''), producer), meta = coalesce(?5, meta), updated_at = ?6, ended_at = NULL
		WHERE id = ?1`

	// advanceSQL: ?1 id, ?2 token, ?3 from, ?4 seq, ?5 now.
	advanceSQL = `
		UPDATE streams SET seq = ?4, updated_at = ?5
		WHERE id = ?1 AND seq = ?3 AND host = ?2 AND status = 'streaming'`

	chunkSQL = `INSERT INTO chunks (stream_id, seq, text) VALUES (?1, ?2, ?3)`

	cancelSQL = `
		UPDATE streams SET cancel = 1, updated_at = ?2
		WHERE id = ?1 AND NOT cancel AND status IN ('pending', 'streaming')`

	// sealSQL: ?1 id, ?2 token, ?3 body, ?4 marks, ?5 seq, ?6 status, ?7 error, ?8 now, ?9 meta.
	sealSQL = `
		UPDATE streams
		SET body = ?3, marks = ?4, seq = ?5, error = ?7, meta = coalesce(?9, meta), updated_at = ?8, ended_at = ?8,
			status = CASE WHEN cancel AND ?6 = 'complete' THEN 'cancelled' ELSE ?6 END
		WHERE id = ?1 AND host = ?2 AND status = 'streaming'`

	// ownerSQL: ?1 id, ?2 owner, ?3 now.
	ownerSQL = `UPDATE streams SET host = ?2, updated_at = ?3 WHERE id = ?1`

	// takenSQL: ?1 id, ?2 owner, ?3 now, ?4 producer.
	takenSQL = `UPDATE streams SET host = ?2, epoch = epoch + 1, producer = nullif(?4, ''), updated_at = ?3 WHERE id = ?1`

	dropSQL = `DELETE FROM chunks WHERE stream_id = ?1`

	getSQL  = `SELECT ` + rows.StreamColumns + ` FROM streams WHERE id = ?1`
	listSQL = `SELECT ` + rows.StreamColumns + ` FROM streams`

	bodySQL   = `SELECT body FROM streams WHERE id = ?1`
	chunksSQL = `SELECT seq, text FROM chunks WHERE stream_id = ?1 ORDER BY seq`

	// pageSQL: ?1 id, ?2 from, ?3 characters between two marks, ?4 characters
	// that hold the page and reach it from the mark below.
	pageSQL = `
		SELECT ` + rows.Columns + `, error IS NOT NULL,
			CASE mark WHEN 0 THEN 0 ELSE json_extract(marks, '$[' || (mark - 1) || ']') END,
			substr(body, mark * ?3 + 1, ?4)
		FROM (SELECT *, (SELECT count(*) FROM json_each(marks) WHERE value <= ?2) AS mark FROM streams WHERE id = ?1)`

	// someSQL: ?1 id, ?2 from, ?3 to. The chunks from the one that holds ?2 to
	// the one that holds ?3.
	someSQL = `
		SELECT seq, text FROM chunks
		WHERE stream_id = ?1 AND seq > ?2 AND seq <= coalesce(
			(SELECT min(seq) FROM chunks WHERE stream_id = ?1 AND seq >= ?3), 9223372036854775807)
		ORDER BY seq`
)

// statements are those of writes, prepared on the one connection that writes.
type statements struct {
	conn *sql.Conn // for what is written seldom

	read, claimed, found, deleted, left, create, claim, advance, chunk, cancel, seal, drop, body, chunks, owner, taken *sql.Stmt
}

func prepare(ctx context.Context, conn *sql.Conn) (s statements, err error) {
	s.conn = conn
	var errs []error
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.read, readSQL}, {&s.claimed, claimedSQL}, {&s.found, foundSQL}, {&s.deleted, deletedSQL}, {&s.left, leftSQL}, {&s.create, createSQL}, {&s.claim, claimSQL},
		{&s.advance, advanceSQL}, {&s.chunk, chunkSQL}, {&s.cancel, cancelSQL}, {&s.seal, sealSQL},
		{&s.drop, dropSQL}, {&s.body, bodySQL}, {&s.chunks, chunksSQL}, {&s.owner, ownerSQL}, {&s.taken, takenSQL},
	} {
		*p.to, err = conn.PrepareContext(ctx, p.sql)
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// exec runs a statement that is not prepared, and answers how many rows it changed.
func (s statements) exec(sql string, args ...any) (int, error) {
	done, err := s.conn.ExecContext(context.Background(), sql, args...)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}
