package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/pg"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	// lockPatience is how long a batch waits for a row that somebody else has
	// locked.
	lockPatience = pg.LockTimeout

	// carefulFor is how long appends are careful after one has met a locked row:
	// they lock their rows first and leave out what is locked already. That costs
	// a third of the rate, and waits for nobody.
	carefulFor = 5 * time.Second
)

// appender appends to the tables, for a group.
type appender struct {
	s       *Store
	patient bool         // the sessions' own lock_timeout is not lockPatience
	careful atomic.Int64 // until then, in Unix nanoseconds
}

var _ group.Writer = (*appender)(nil)

func (a *appender) isCareful() bool { return time.Now().UnixNano() < a.careful.Load() }

func (a *appender) beCareful() { a.careful.Store(time.Now().Add(carefulFor).UnixNano()) }

// Append adds a slice as a chunk row, together with those of other streams. See
// plane.Store. store.ErrBusy if the row is locked: the stream has a rhythm of its
// own for repeats.
func (s *Store) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
		return plane.Row{}, fmt.Errorf("append to %q: %w", slice.ID, err)
	}
	if slice.Text == "" {
		return s.Read(ctx, slice.ID)
	}
	var row plane.Row
	err := s.calls.Do(func() (err error) {
		row, err = s.appends.Append(ctx, slice)
		return err
	})
	if err != nil {
		return plane.Row{}, failed(ctx, err, "append to %q", slice.ID)
	}
	return row, nil
}

// One is a group.Writer's.
func (a *appender) One(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	stmt := a.s.stmt.appendNow
	if a.patient || a.isCareful() {
		stmt = a.s.stmt.append
	}
	row, err := a.s.row(ctx, stmt, slice.ID, slice.Token, slice.From, slice.Seq, slice.Text)
	switch {
	case locked(err):
		a.beCareful()
	case errors.Is(err, plane.ErrNotFound): // or it does not fit
		return a.s.row(ctx, a.s.stmt.read, slice.ID)
	}
	return row, err
}

// Many is a group.Writer's.
func (a *appender) Many(ctx context.Context, slices []plane.Slice) ([]group.Answer, error) {
	var answers []group.Answer
	var err error
	if !a.isCareful() {
		if answers, err = a.many(ctx, a.s.stmt.appends, slices); !locked(err) {
			return a.complete(ctx, slices, answers, err)
		}
		a.beCareful()
	}
	answers, err = a.many(ctx, a.s.stmt.appendsFree, slices)
	return a.complete(ctx, slices, answers, err)
}

// many runs one of the statements that append many slices. A slice that it did not
// append has no answer yet.
func (a *appender) many(ctx context.Context, sql string, slices []plane.Slice) ([]group.Answer, error) {
	n := len(slices)
	ids, tokens, texts := make([]string, n), make([]string, n), make([]string, n)
	from, seq := make([]int64, n), make([]int64, n)
	for i, s := range slices {
		ids[i], tokens[i], texts[i], from[i], seq[i] = s.ID, s.Token, s.Text, s.From, s.Seq
	}
	batch := new(pgx.Batch)
	batch.Queue(batchSettingsSQL, lockPatience)
	batch.Queue(sql, ids, tokens, from, seq, texts)
	results := a.s.pool.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		return nil, errors.Join(err, results.Close())
	}
	found, err := results.Query()
	answers, err := appended(found, err, slices)
	if closed := results.Close(); err == nil { // the transaction ends here
		err = closed
	}
	return answers, err
}

// appended reads who was appended to.
func appended(found pgx.Rows, err error, slices []plane.Slice) ([]group.Answer, error) {
	if err != nil {
		return nil, err
	}
	answers := make([]group.Answer, len(slices))
	var n, epoch int64
	var cancel bool
	_, err = pgx.ForEachRow(found, []any{&n, &cancel, &epoch}, func() error {
		s := slices[n-1]
		answers[n-1].Row = plane.Row{Seq: s.Seq, Status: plane.StatusStreaming, Cancel: cancel, Token: s.Token, Epoch: epoch}
		return nil
	})
	return answers, err
}

// complete answers those that were not appended with their rows as they are. One
// that could have been, by its row, was locked.
func (a *appender) complete(ctx context.Context, slices []plane.Slice, answers []group.Answer, err error) ([]group.Answer, error) {
	if err != nil {
		return nil, err
	}
	missing := map[string]int{}
	var ids []string
	for n := range answers {
		if answers[n].Row.Token == "" {
			missing[slices[n].ID] = n
			ids = append(ids, slices[n].ID)
			answers[n].Err = plane.ErrNotFound
		}
	}
	if len(ids) == 0 {
		return answers, nil
	}
	found, err := a.s.pool.Query(ctx, a.s.stmt.readAll, ids)
	if err != nil {
		return nil, err // they were appended, and a repeat says so
	}
	for found.Next() {
		var id string
		var row plane.Row
		if err := rows.Scan(found, &row, &id); err != nil {
			return nil, err
		}
		n := missing[id]
		answers[n] = group.Answer{Row: row}
		if s := slices[n]; row.Seq == s.From && row.Token == s.Token && row.Status == plane.StatusStreaming {
			answers[n] = group.Answer{Err: store.ErrBusy}
			a.beCareful()
		}
	}
	return answers, found.Err()
}

// Divisible is a group.Writer's.
func (a *appender) Divisible(err error) bool { return oneRows(err) }

// oneRows reports whether err may be for what one row is, so that others of the
// same statement have none without it.
func oneRows(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || said.Severity == "FATAL" || said.Severity == "PANIC" {
		return false
	}
	switch pg.Class(err) {
	case "", "08", "25", "28", "3D", "53", "57", "58": // of the connection or the server
		return false
	default: // a damaged row, a policy or a trigger of the application's may be the cause
		return true
	}
}
