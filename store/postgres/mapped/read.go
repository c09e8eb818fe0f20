package mapped

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Get answers all of a stream that the tables have, but its text. See store.Store.
func (s *Store) Get(ctx context.Context, id string) (store.Stream, error) {
	if !s.known(id) {
		return store.Stream{}, pg.Failed(ctx, plane.ErrNotFound, "get %q", id)
	}
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

// List answers a page of messages, in the order of their keys. See store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	if err := rows.CheckQuery(q); err != nil {
		return nil, err
	}
	where, args := s.where(q)
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

// where is the end of a list's SELECT. The prefix of a key is a range of it only
// where keys are in the order of their bytes.
func (s *Store) where(q store.Query) (sql string, args []any) {
	key, status := "m."+quote(s.has.Key), "m."+quote(s.has.Status)
	text := key
	if s.key.uuid() {
		text += "::text"
	}
	add := func(term string, arg any) {
		args = append(args, arg)
		sql += " AND " + term + "$" + strconv.Itoa(len(args)) + "::text"
	}
	switch q.Status {
	case "":
	case plane.StatusPending:
		sql += " AND coalesce(" + status + " NOT IN ('streaming', 'complete', 'cancelled', 'error', 'interrupted'), true)"
	default:
		sql += " AND " + status + " = '" + string(q.Status) + "'"
	}
	switch {
	case q.After == "":
	case s.key.uuid() && canonical(q.After):
		add(key+" > ", q.After)
		sql += "::uuid"
	default:
		add(text+" > ", q.After)
	}
	if q.Prefix != "" {
		add("starts_with("+text+", ", q.Prefix)
		sql += ")"
		if s.key.Bytewise {
			add(key+" >= ", q.Prefix)
			if end := rows.Successor(q.Prefix); end != "" {
				add(key+" < ", end)
			}
		}
	}
	args = append(args, rows.MostOf(q))
	return sql + " ORDER BY " + key + " LIMIT $" + strconv.Itoa(len(args)), args
}

// scanStream reads what getSQL and listSQL answer.
func scanStream(from pgx.Row) (s store.Stream, err error) {
	err = rows.Scan(from, &s.Row, &s.ID, &s.HasError)
	return s, err
}

// Text answers a page of durable text, by one statement and so of one snapshot.
// See store.Store.
func (s *Store) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	page, err := s.page(ctx, id, from, limit)
	if err != nil {
		return store.Page{}, pg.Failed(ctx, err, "read text of %q", id)
	}
	return page, nil
}

func (s *Store) page(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	if !s.known(id) {
		return store.Page{}, plane.ErrNotFound
	}
	if err := s.reads.Begin(ctx); err != nil {
		return store.Page{}, err
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
		return store.Page{}, err
	}
	return rows.Page(row, hasError, from, limit, rows.Pieces(base, body, ends, texts))
}
