package mapped

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Open claims the row of a message, which must be there. See plane.Store.
func (s *Store) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	row, err := pg.Patiently(ctx, func() (plane.Row, error) { return s.open(ctx, claim) })
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "open %q", claim.ID)
	}
	row.Producer = store.Sound(claim.Producer) // the tables have none
	return row, nil
}

func (s *Store) open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	if !s.known(claim.ID) {
		return plane.Row{}, plane.ErrNotFound
	}
	var claimed bool
	var before plane.Row
	var err error
	if s.has.Host != "" {
		err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.open, claim.ID, claim.Node), &before, &claimed)
	} else {
		before, claimed, err = s.claimWithoutToken(ctx, claim)
	}
	if claimed || err != nil {
		return before, err
	}
	// A refusal, an earlier claim of ours, or somebody was faster than this
	// statement, which then saw the row as it was before.
	now, mine, err := s.find(ctx, claim.ID)
	if err != nil {
		return plane.Row{}, err
	}
	judge := rows.Judge
	if before.Status != plane.StatusStreaming && before.Seq == 0 {
		judge = rows.JudgeLost
	}
	asked := now
	if mine != "" { // known by other means than the token
		asked.Token, asked.Epoch = plane.MakeToken(mine, now.Epoch, nil), now.Epoch
	}
	own, err := judge(claim.Node, asked)
	if s.has.Host == "" && errors.Is(err, plane.ErrHeld) {
		err = fmt.Errorf("%w: without a column for host nobody can tell whose it is, nor whether that one lives: the application ends it, by its status", plane.ErrHeld)
	}
	if !own && err == nil { // refused, and free again since
		err = plane.ErrLostRace
	}
	if own {
		s.settle(claim.ID)
	}
	return now.Row, err
}

// find answers the row of an open, and which node's claim of this store's it is,
// where that was in doubt.
func (s *Store) find(ctx context.Context, id string) (now rows.Found, mine string, err error) {
	var writer string
	err = rows.Scan(s.pool.QueryRow(ctx, s.stmt.found, id), &now.Row, nil, &now.NullSeq, &now.HasText, &writer)
	if err != nil {
		return now, "", err
	}
	return now, s.claimed(id, now, writer), nil
}

// doubt is a claim whose commit had no answer. There is no token in the row to
// know it by, but the transaction that wrote it is.
type doubt struct {
	node, writer string
	since        time.Time
}

// What bounds the doubts: who asks for a stream again does so within minutes. An
// open of what was forgotten is refused like that of another's stream.
const (
	doubtTime = 10 * time.Minute
	maxDoubts = 4096
)

// doubt takes note of a claim. Of too many the oldest is forgotten.
func (s *Store) doubt(id string, d doubt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := ""
	for id, d := range s.doubts {
		switch {
		case time.Since(d.since) > doubtTime:
			delete(s.doubts, id)
		case oldest == "" || d.since.Before(s.doubts[oldest].since):
			oldest = id
		}
	}
	if len(s.doubts) >= maxDoubts {
		delete(s.doubts, oldest)
	}
	s.doubts[id] = d
}

// claimWithoutToken claims a row in a transaction that is known by the time it is
// committed.
func (s *Store) claimWithoutToken(ctx context.Context, claim plane.Claim) (row plane.Row, claimed bool, err error) {
	var writer string
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := rows.Scan(tx.QueryRow(ctx, s.stmt.open, claim.ID), &row, &claimed)
		if err != nil || !claimed {
			return err
		}
		return tx.QueryRow(ctx, "SELECT (txid_current() % 4294967296)::text").Scan(&writer)
	})
	if err != nil && writer != "" {
		s.doubt(claim.ID, doubt{claim.Node, writer, time.Now()})
	}
	if err != nil {
		return plane.Row{}, false, err
	}
	return row, claimed, nil
}

// claimed answers the node whose claim a row is that nobody has written to since,
// "" if it is none. What it is not any more is forgotten.
func (s *Store) claimed(id string, now rows.Found, writer string) (node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.doubts[id]
	if !ok {
		return ""
	}
	if now.Status != plane.StatusStreaming || d.writer != writer || time.Since(d.since) > doubtTime {
		delete(s.doubts, id)
		return ""
	}
	return d.node
}

func (s *Store) settle(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.doubts, id)
}

// doubted reports whether a claim of the row is in doubt.
func (s *Store) doubted(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.doubts[id]
	return ok
}

// Read answers a stream's row. See plane.Store.
func (s *Store) Read(ctx context.Context, id string) (plane.Row, error) {
	row, err := s.read(ctx, id)
	if err != nil {
		return plane.Row{}, pg.Failed(ctx, err, "read %q", id)
	}
	return row, nil
}

func (s *Store) read(ctx context.Context, id string) (plane.Row, error) {
	if !s.doubted(id) {
		return s.row(ctx, s.stmt.read, id)
	}
	now, mine, err := s.find(ctx, id)
	switch {
	case errors.Is(err, plane.ErrNotFound):
		s.settle(id)
	case mine != "": // so that who asked for it can give it back
		now.Token = plane.MakeToken(mine, now.Epoch, nil)
	}
	return now.Row, err
}
