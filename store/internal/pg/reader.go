package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// ReadSQL are the statements of what readers ask of a store.
type ReadSQL struct {
	// Get and List answer streams as Reader.Scan reads them: $1 id; and List all but
	// for the WHERE, or what is left of it, that Reader.Where gives.
	Get, List string

	// Page answers rows.Columns, whether there is an error, where body begins, body,
	// and the chunks' ends and texts: $1 id, $2 and $3 as rows.Window gives them.
	Page string
}

// Reader answers readers. It leaves connections of the pool for writes.
type Reader struct {
	Pool  *pgxpool.Pool
	Turns Reads
	SQL   ReadSQL

	Known func(id string) bool // whether id can be a key at all; nil if any can
	Where func(store.Query) (sql string, args []any, err error)
	Scan  func(pgx.Row) (store.Stream, error)
}

// Get answers all of a stream but its text. See store.Store.
func (r *Reader) Get(ctx context.Context, id string) (stream store.Stream, err error) {
	err = r.inTurn(ctx, r.known(id), func() error {
		stream, err = r.Scan(r.Pool.QueryRow(ctx, r.SQL.Get, id))
		return err
	})
	if err != nil {
		return store.Stream{}, Failed(ctx, err, "get %q", id)
	}
	return stream, nil
}

// List answers a page of streams. See store.Store.
func (r *Reader) List(ctx context.Context, q store.Query) (list []store.Stream, err error) {
	where, args, err := r.Where(q)
	if err != nil {
		return nil, err
	}
	err = r.inTurn(ctx, true, func() error {
		found, err := r.Pool.Query(ctx, r.SQL.List+where, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (store.Stream, error) { return r.Scan(row) })
		return err
	})
	if err != nil {
		return nil, Failed(ctx, err, "list streams")
	}
	return list, nil
}

// Text answers a page of durable text, by one statement and so of one snapshot.
// See store.Store.
func (r *Reader) Text(ctx context.Context, id string, from, limit int64) (page store.Page, err error) {
	from, limit = rows.Window(from, limit)
	var (
		row      plane.Row
		hasError bool
		base     int64
		body     string
		ends     []int64
		texts    []string
	)
	err = r.inTurn(ctx, r.known(id), func() error {
		return rows.Scan(r.Pool.QueryRow(ctx, r.SQL.Page, id, from, limit), &row, nil, &hasError, &base, &body, &ends, &texts)
	})
	if err == nil {
		page, err = rows.Page(row, hasError, from, limit, rows.Pieces(base, body, ends, texts))
	}
	if err != nil {
		return store.Page{}, Failed(ctx, err, "read text of %q", id)
	}
	return page, nil
}

func (r *Reader) known(id string) bool { return r.Known == nil || r.Known(id) }

// inTurn asks when there is a connection for a reader, unless it is for what can't
// be there.
func (r *Reader) inTurn(ctx context.Context, known bool, ask func() error) error {
	if !known {
		return plane.ErrNotFound
	}
	if err := r.Turns.Begin(ctx); err != nil {
		return err
	}
	defer r.Turns.End()
	return ask()
}
