package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
)

// obviousConns is the size of the obvious way's pool: more make it faster until
// about here.
const obviousConns = 8

// obvious is how a checkpoint is written at first: five round trips.
type obvious struct {
	pool                 *pgxpool.Pool
	insert, update, read string
}

func openObvious(ctx context.Context, url, schema string) (appender, func(), error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	cfg.MaxConns = obviousConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	own := strings.NewReplacer("OWN", schema)
	_, err = pool.Exec(ctx, own.Replace(`
		CREATE SCHEMA OWN;
		CREATE TABLE OWN.streams (
			id text PRIMARY KEY, body text NOT NULL DEFAULT '', seq bigint NOT NULL DEFAULT 0, status text NOT NULL,
			host text, cancel boolean NOT NULL DEFAULT false, updated_at timestamptz NOT NULL DEFAULT now());
		CREATE TABLE OWN.chunks (id text PRIMARY KEY, stream_id text NOT NULL, seq bigint NOT NULL, text text NOT NULL);
		CREATE INDEX ON OWN.chunks (stream_id, seq);`))
	if err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("make tables: %w", err)
	}
	return &obvious{
		pool: pool,
		insert: own.Replace(`INSERT INTO OWN.chunks (id, stream_id, seq, text) SELECT $1, $2, $3, $4
			WHERE EXISTS (SELECT FROM OWN.streams WHERE id = $2 AND seq = $5 AND host = $6) ON CONFLICT DO NOTHING`),
		update: own.Replace(`UPDATE OWN.streams SET seq = $2, updated_at = now() WHERE id = $1 AND seq = $3 AND host = $4`),
		read:   own.Replace(`SELECT seq, status, cancel, host FROM OWN.streams WHERE id = $1`),
	}, pool.Close, nil
}

const obviousToken = "n1/boot1/1"

func (o *obvious) open(ctx context.Context, id string) (plane.Row, error) {
	_, err := o.pool.Exec(ctx, "INSERT INTO "+o.table()+" (id, status, host) VALUES ($1, 'streaming', $2)", id, obviousToken)
	return plane.Row{Token: obviousToken}, err
}

// table is the name of the streams' table.
func (o *obvious) table() string {
	_, after, _ := strings.Cut(o.read, " FROM ")
	name, _, _ := strings.Cut(after, " ")
	return name
}

func (o *obvious) append(ctx context.Context, s plane.Slice) (row plane.Row, err error) {
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, o.insert, fmt.Sprintf("%s:%d", s.ID, s.Seq), s.ID, s.Seq, s.Text, s.From, s.Token); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, o.update, s.ID, s.Seq, s.From, s.Token)
		return err
	})
	if err != nil {
		return row, err
	}
	err = o.pool.QueryRow(ctx, o.read, s.ID).Scan(&row.Seq, &row.Status, &row.Cancel, &row.Token)
	return row, err
}
