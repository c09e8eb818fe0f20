package mapped

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pg"
)

// AppendSQL answers the statement of one append.
func (s *Store) AppendSQL() string { return s.stmt.append }

// AppendOne appends one slice, at once.
func AppendOne(ctx context.Context, s *Store, slice plane.Slice) (plane.Row, error) {
	return s.appender().One(ctx, slice)
}

// Sweep sweeps for a node that has a lease that had no gap for long.
func Sweep(ctx context.Context, s *Store, grace time.Duration) (int, error) {
	node := store.Node{Name: "sweeper", Incarnation: "boot1"}
	if _, err := s.Renew(ctx, node, time.Hour); err != nil {
		return 0, err
	}
	if _, err := s.pool.Exec(ctx, "UPDATE rillkeep.nodes SET since = '-infinity' WHERE name = $1", node.Name); err != nil {
		return 0, err
	}
	n, err := s.Sweep(ctx, node, grace)
	return n, errors.Join(err, s.Release(ctx, node))
}

// AppendMany appends one batch.
func AppendMany(ctx context.Context, s *Store, slices []plane.Slice) ([]group.Answer, error) {
	return s.appender().Many(ctx, slices)
}

// SQL answers statements by name, each with arguments to explain it with.
func (s *Store) SQL() map[string][2]string {
	const state = "'s5', 'n1/boot1/1', 0, 1"
	return map[string][2]string{
		"append":     {s.stmt.append, state + ", 'x'"},
		"append all": {s.stmt.appendAll, "'{s5,s6}', '{n1/boot1/1,n1/boot1/1}', '{0,0}', '{1,1}', '{x,y}'"},
		"seal":       {s.stmt.seal, state + ", 'x', 'complete', NULL"},
		"fold":       {s.stmt.fold, state + ", 'x', 'complete', 0, NULL"},
		"lock":       {s.stmt.lock, state},
		"open":       {s.stmt.open, "'s5', 'n1/boot1'"},
		"cancel":     {s.stmt.cancel, "'s5'"},
		"found":      {s.stmt.found, "'s5'"},
		"pieces":     {s.stmt.pieces, "'s5'"},
		"page":       {s.stmt.page, "'s5', 10, 10"},
		"unknown":    {s.stmt.unknown, ""},
		"orphaned":   {s.stmt.sweep.Orphans, "'30s', 16, '{}', 'n1', 'boot1'"},
		"texts":      {s.stmt.sweep.Texts, "'{s1,s2}'"},
		"sweep":      {s.stmt.sweep.Seal, "'s1', 'x'"},
		"disown":     {s.stmt.disown, "'s5', 'n1/boot1/1', 1"},
		"take over":  {s.stmt.takeOver, "'s5', 'n1/boot1/1', 'n2/boot1', '/'"},
		"adopt":      {s.stmt.adopt, "'s5', '/1/1', 'n2/boot1'"},
		"disowned":   {s.stmt.disowned, "'30s', 16, '{}', 'n1', 'boot1'"},
		"chunks":     {s.stmt.chunks, "'s5'"},
		"cut":        {s.stmt.cut, "'s5', 'x', 1, 'lost'"},
		"cancelled":  {s.stmt.cancelled, "'n1/boot1/'"},
		"streaming":  {s.stmt.streaming, ""},
		"read":       {s.stmt.read, "'s5'"},
		"read all":   {s.stmt.readAll, "'{s5,s6}'"},
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

// Doubt makes the store doubt a claim, as if one had been lost so long ago.
func Doubt(s *Store, id string, ago time.Duration) {
	s.doubt(id, doubt{node: "n1/boot1", since: time.Now().Add(-ago)})
}

// Doubted reports whether it does.
func Doubted(s *Store, id string) bool { return s.doubted(id) }

// MostDoubts is how many there may be.
const MostDoubts = maxDoubts

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
