package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// scanRow reads rowCols, and what stands before (nil for nothing) and after it.
func scanRow(from scanner, row *plane.Row, before any, after ...any) error {
	dest := make([]any, 0, 16)
	if before != nil {
		dest = append(dest, before)
	}
	dest = append(dest, &row.Seq, &row.Status, &row.Cancel, &row.Token, &row.Epoch, &row.Error)
	err := from.Scan(append(dest, after...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return plane.ErrNotFound
	}
	return err
}

// collect reads all rows of a query.
func collect[T any](scan func(*sql.Rows) (T, error)) func(*sql.Rows, error) ([]T, error) {
	return func(rows *sql.Rows, err error) ([]T, error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var all []T
		for rows.Next() {
			one, err := scan(rows)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, rows.Err()
	}
}

// row answers a row in the middle of a write.
func (s statements) row(id string) (row plane.Row, err error) {
	err = scanRow(s.read.QueryRow(id), &row, nil)
	return row, err
}

// whole answers a text from 0 to to in the middle of a write.
func (s statements) whole(id string, to int64) (string, error) {
	var body string
	if err := s.body.QueryRow(id).Scan(&body); err != nil {
		return "", err
	}
	pieces, err := collect(scanChunk)(s.chunks.Query(id))
	if err != nil {
		return "", err
	}
	text, _, err := store.Stretch(append(pieces, store.BodyPiece(0, body)), 0, to)
	return text, err
}

func scanChunk(rows *sql.Rows) (store.Piece, error) {
	var end int64
	var text string
	err := rows.Scan(&end, &text)
	return store.ChunkPiece(end, text), err
}

// Read answers a stream's row. See plane.Store.
func (s *Store) Read(ctx context.Context, id string) (row plane.Row, err error) {
	if err := scanRow(s.reads.QueryRowContext(ctx, readSQL, id), &row, nil); err != nil {
		return plane.Row{}, fmt.Errorf("read %q: %w", id, err)
	}
	return row, nil
}

// Get answers all of a stream but its text. See store.Store.
func (s *Store) Get(ctx context.Context, id string) (store.Stream, error) {
	stream, err := scanStream(s.reads.QueryRowContext(ctx, getSQL, id))
	if err != nil {
		return store.Stream{}, fmt.Errorf("get %q: %w", id, err)
	}
	return stream, nil
}

// List answers a page of streams. See store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	where, args := q.Where("?")
	scan := func(rows *sql.Rows) (store.Stream, error) { return scanStream(rows) }
	list, err := collect(scan)(s.reads.QueryContext(ctx, listSQL+where, args...))
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	return list, nil
}

// scanStream reads streamCols.
func scanStream(from scanner) (s store.Stream, err error) {
	var meta sql.NullString
	var created, updated int64
	var ended sql.NullInt64
	err = scanRow(from, &s.Row, &s.ID, &s.HasError, &s.Producer, &meta, &created, &updated, &ended)
	if err != nil {
		return store.Stream{}, err
	}
	if meta.Valid {
		s.Meta = json.RawMessage(meta.String)
	}
	s.Created, s.Updated = time.UnixMicro(created), time.UnixMicro(updated)
	if ended.Valid {
		s.Ended = time.UnixMicro(ended.Int64)
	}
	return s, nil
}

// Text answers a page of durable text. See store.Store.
func (s *Store) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	page, err := s.text(ctx, id, from, limit)
	if err != nil {
		return store.Page{}, fmt.Errorf("read text of %q: %w", id, err)
	}
	return page, nil
}

func (s *Store) text(ctx context.Context, id string, from, limit int64) (page store.Page, err error) {
	from, limit = store.Span(from, limit)
	tx, err := s.reads.BeginTx(ctx, nil) // both statements see the same state
	if err != nil {
		return page, err
	}
	defer tx.Rollback() // it wrote nothing

	var (
		row      plane.Row
		hasError bool
		base     int64
		body     string
	)
	read := tx.QueryRowContext(ctx, pageSQL, id, from, store.MarkEvery, limit+store.MarkEvery+1)
	if err := scanRow(read, &row, nil, &hasError, &base, &body); err != nil {
		return page, err
	}
	pieces, err := collect(scanChunk)(tx.QueryContext(ctx, someSQL, id, from, from+limit))
	if err != nil {
		return page, err
	}
	return store.NewPage(row, hasError, from, limit, append(pieces, store.BodyPiece(base, body)))
}

func encodeMarks(body string) (string, error) {
	marks, err := json.Marshal(store.Marks(body))
	return string(marks), err
}
