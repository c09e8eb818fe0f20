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
	return s.reader.Get(ctx, id)
}

// List answers a page of streams. See store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	return s.reader.List(ctx, q)
}

// Text answers a page of durable text. See store.Store.
func (s *Store) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	return s.reader.Text(ctx, id, from, limit)
}

func (s *Store) newReader() pg.Reader {
	return pg.Reader{
		Pool: s.pool, Turns: pg.NewReads(s.pool), SQL: pg.ReadSQL{Get: s.stmt.get, List: s.stmt.list, Page: s.stmt.page},
		Where: func(q store.Query) (string, []any, error) { return rows.Where(q, "$") },
		Scan:  scanStream,
	}
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
