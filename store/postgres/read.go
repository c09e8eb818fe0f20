package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Read answers a stream's row. See plane.Store.
func (s *Store) Read(ctx context.Context, id string) (plane.Row, error) {
	row, err := s.row(ctx, s.stmt.read, id)
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "read %q", id)
	}
	return row, nil
}

// row runs a statement that answers rows.Columns.
func (s *Store) row(ctx context.Context, sql string, args ...any) (row plane.Row, err error) {
	err = rows.Scan(s.pool.QueryRow(ctx, sql, args...), &row, nil)
	return row, err
}

// Get answers all of a stream but its text. See store.Store.
func (s *Store) Get(ctx context.Context, id string) (store.Stream, error) {
	if err := s.reads.Begin(ctx); err != nil {
		return store.Stream{}, pg.Failed(ctx, err, "get %q", id)
	}
	defer s.reads.End()
	stream, err := scanStream(s.pool.QueryRow(ctx, s.stmt.get, id))
	if err != nil {
		return store.Stream{}, pg.Failed(ctx, err, "get %q", id)
	}
	return stream, nil
}

// List answers a page of streams. See store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	where, args, err := rows.Where(q, "$")
	if err != nil {
		return nil, err
	}
	if err := s.reads.Begin(ctx); err != nil {
		return nil, pg.Failed(ctx, err, "list streams")
	}
	defer s.reads.End()
	found, err := s.pool.Query(ctx, s.stmt.list+where, args...)
	if err != nil {
		return nil, pg.Failed(ctx, err, "list streams")
	}
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (store.Stream, error) { return scanStream(row) })
	if err != nil {
		return nil, pg.Failed(ctx, err, "list streams")
	}
	return list, nil
}

// scanStream reads rows.StreamColumns.
func scanStream(from pgx.Row) (s store.Stream, err error) {
	var meta *string
	var ended *time.Time
	err = rows.Scan(from, &s.Row, &s.ID, &s.HasError, &s.Producer, &meta, &s.Created, &s.Updated, &ended)
	if err != nil {
		return store.Stream{}, err
	}
	if meta != nil {
		s.Meta = []byte(*meta)
	}
	if ended != nil {
		s.Ended = *ended
	}
	return s, nil
}

// Text answers a page of durable text, by one statement and so of one snapshot.
// See store.Store.
func (s *Store) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	if err := s.reads.Begin(ctx); err != nil {
		return store.Page{}, pg.Failed(ctx, err, "read text of %q", id)
	}
	defer s.reads.End()
	from, limit = rows.Window(from, limit)
	var (
		row      plane.Row
		hasError bool
		base     int64
		body     string
		ends     []int64
		texts    []string
	)
	err := rows.Scan(s.pool.QueryRow(ctx, s.stmt.page, id, from, limit), &row, nil, &hasError, &base, &body, &ends, &texts)
	if err != nil {
		return store.Page{}, pg.Failed(ctx, err, "read text of %q", id)
	}
	page, err := rows.Page(row, hasError, from, limit, rows.Pieces(base, body, ends, texts))
	if err != nil {
		return store.Page{}, pg.Failed(ctx, err, "read text of %q", id)
	}
	return page, nil
}
