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
	return s.reader.Get(ctx, id)
}

// List answers a page of messages, in the order of their keys. See store.Store.
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
		Known: s.known, Where: s.where, Scan: scanStream,
	}
}

// where is the end of a list's SELECT. The prefix of a key is a range of it only
// where keys are in the order of their bytes.
func (s *Store) where(q store.Query) (sql string, args []any, err error) {
	if err := rows.CheckQuery(q); err != nil {
		return "", nil, err
	}
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
	return sql + " ORDER BY " + key + " LIMIT $" + strconv.Itoa(len(args)), args, nil
}

// scanStream reads what getSQL and listSQL answer.
func scanStream(from pgx.Row) (s store.Stream, err error) {
	err = rows.Scan(from, &s.Row, &s.ID, &s.HasError)
	return s, err
}
