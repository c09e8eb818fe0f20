package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// collect reads all rows of a query.
func collect[T any](scan func(*sql.Rows) (T, error)) func(*sql.Rows, error) ([]T, error) {
	return func(found *sql.Rows, err error) ([]T, error) {
		if err != nil {
			return nil, err
		}
		defer found.Close()
		var all []T
		for found.Next() {
			one, err := scan(found)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, found.Err()
	}
}

// row answers a row in the middle of a write.
func (s statements) row(id string) (row plane.Row, err error) {
	err = rows.Scan(s.read.QueryRow(id), &row, nil)
	return row, err
}

// rowWithProducer is row, with its Producer.
func (s statements) rowWithProducer(id string) (row plane.Row, err error) {
	err = rows.Scan(s.claimed.QueryRow(id), &row, nil, &row.Producer)
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
	text, _, err := rows.Stretch(append(pieces, rows.BodyPiece(0, body)), 0, to)
	return text, err
}

func scanChunk(from *sql.Rows) (rows.Piece, error) {
	var end int64
	var text string
	err := from.Scan(&end, &text)
	return rows.ChunkPiece(end, text), err
}

// Read answers a stream's row. See plane.Store.
func (s *Store) Read(ctx context.Context, id string) (row plane.Row, err error) {
	err = s.do(func() error { return rows.Scan(s.reads.QueryRowContext(ctx, readSQL, id), &row, nil) })
	if err != nil {
		return plane.Row{}, fmt.Errorf("read %q: %w", id, err)
	}
	return row, nil
}

// Get answers all of a stream but its text. See store.Store.
func (s *Store) Get(ctx context.Context, id string) (stream store.Stream, err error) {
	err = s.do(func() error {
		stream, err = scanStream(s.reads.QueryRowContext(ctx, getSQL, id))
		return err
	})
	if err != nil {
		return store.Stream{}, fmt.Errorf("get %q: %w", id, err)
	}
	return stream, nil
}

// List answers a page of streams. See store.Store.
func (s *Store) List(ctx context.Context, q store.Query) (list []store.Stream, err error) {
	where, args, err := rows.Where(q, "?")
	if err != nil {
		return nil, err
	}
	scan := func(from *sql.Rows) (store.Stream, error) { return scanStream(from) }
	err = s.do(func() error {
		list, err = collect(scan)(s.reads.QueryContext(ctx, listSQL+where, args...))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	return list, nil
}

// scanStream reads rows.StreamColumns.
func scanStream(from rows.Scanner) (s store.Stream, err error) {
	var meta sql.NullString
	var created, updated int64
	var ended sql.NullInt64
	err = rows.Scan(from, &s.Row, &s.ID, &s.HasError, &s.Producer, &meta, &created, &updated, &ended)
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
func (s *Store) Text(ctx context.Context, id string, from, limit int64) (page store.Page, err error) {
	err = s.do(func() error {
		page, err = s.text(ctx, id, from, limit)
		return err
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("read text of %q: %w", id, err)
	}
	return page, nil
}

func (s *Store) text(ctx context.Context, id string, from, limit int64) (page store.Page, err error) {
	from, limit = rows.Window(from, limit)
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
	read := tx.QueryRowContext(ctx, pageSQL, id, from, rows.MarkEvery, limit+rows.MarkEvery+1)
	if err := rows.Scan(read, &row, nil, &hasError, &base, &body); err != nil {
		return page, err
	}
	pieces, err := collect(scanChunk)(tx.QueryContext(ctx, someSQL, id, from, from+limit))
	if err != nil {
		return page, err
	}
	return rows.Page(row, hasError, from, limit, append(pieces, rows.BodyPiece(base, body)))
}

func encodeMarks(body string) (string, error) {
	marks, err := json.Marshal(rows.Marks(body))
	return string(marks), err
}
