package mapped

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// AppendSQL answers the statement of one append.
func (s *Store) AppendSQL() string { return s.stmt.append }

// AppendAll appends slices in one statement, and answers the rows by id.
func AppendAll(ctx context.Context, s *Store, slices []plane.Slice) (map[string]plane.Row, error) {
	var (
		ids, tokens, texts []string
		froms, seqs        []int64
	)
	for _, slice := range slices {
		ids, tokens, texts = append(ids, slice.ID), append(tokens, slice.Token), append(texts, slice.Text)
		froms, seqs = append(froms, slice.From), append(seqs, slice.Seq)
	}
	found, err := s.pool.Query(ctx, s.stmt.appendAll, ids, tokens, froms, seqs, texts)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	answers := make(map[string]plane.Row)
	for found.Next() {
		var id string
		var row plane.Row
		if err := rows.Scan(found, &row, &id); err != nil {
			return nil, err
		}
		answers[id] = row
	}
	return answers, found.Err()
}

// SQL answers statements by name, each with arguments to explain it with.
func (s *Store) SQL() map[string][2]string {
	const state = "'s5', 'n1/boot1/1', 0, 1"
	return map[string][2]string{
		"append":     {s.stmt.append, state + ", 'x'"},
		"append all": {s.stmt.appendAll, "'{s5,s6}', '{n1/boot1/1,n1/boot1/1}', '{0,0}', '{1,1}', '{x,y}'"},
		"seal":       {s.stmt.seal, state + ", 'x', 'complete', NULL"},
		"lock":       {s.stmt.lock, state},
		"open":       {s.stmt.open, "'s5', 'n1/boot1'"},
		"cancel":     {s.stmt.cancel, "'s5'"},
		"found":      {s.stmt.found, "'s5'"},
		"pieces":     {s.stmt.pieces, "'s5'"},
		"page":       {s.stmt.page, "'s5', 10, 10"},
		"orphans":    {s.stmt.orphans, "'', 'n1/', 'n1/boot2/'"},
		"interrupt":  {s.stmt.interrupt, "'s5', 'n1/boot1/1'"},
		"read":       {s.stmt.read, "'s5'"},
		"get":        {s.stmt.get, "'s5'"},
		"list":       {s.stmt.list + " AND m.id > 's4' ORDER BY m.id LIMIT 10", ""},
	}
}

// Doubts answers how many claims are in doubt.
func (s *Store) Doubts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.doubts)
}

// OpenLosing is Open for a store that loses its connection when the server has
// done, but not answered, what lose says.
func OpenLosing(tb testing.TB, url string, t Tables, lose func(query []byte) bool) *Store {
	tb.Helper()
	pool, _, err := pg.Open(tb.Context(), url, "")
	if err != nil {
		tb.Fatal(err)
	}
	cfg := pool.Config()
	pool.Close()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return losing{conn, lose}, err
	}
	if pool, err = pgxpool.NewWithConfig(tb.Context(), cfg); err != nil {
		tb.Fatal(err)
	}
	s, err := newStore(tb.Context(), pool, cfg.ConnConfig, t.withDefaults())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

type losing struct {
	net.Conn
	lose func(query []byte) bool
}

func (c losing) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.HasPrefix(p, []byte("Q")) && c.lose(p) {
		_, _ = c.Read(make([]byte, 1)) // it is done
		_ = c.Close()
	}
	return n, err
}
