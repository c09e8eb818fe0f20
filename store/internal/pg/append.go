package pg

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

const (
	// batchSettingsSQL: $1 a lock_timeout, for this transaction; and its statements
	// are planned for what they are given. A plan that is kept for any number of
	// slices may be of a time when the table was small: 512 of them then took 91 ms
	// in place of 6.
	batchSettingsSQL = `SELECT set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true)`

	// lockPatience is how long a batch waits for what somebody else has locked.
	lockPatience = LockTimeout

	// soloPatience is how long a slice by itself does once that was too short, and its
	// row is not what is locked: for the server's own locks, such as of a table that
	// another session makes larger, on a machine that is slow just then.
	soloPatience = "250ms"

	// carefulFor is how long appends are careful after one has met a locked row:
	// they lock their rows first and leave out what is locked already. That costs
	// a third of the rate, and waits for nobody.
	carefulFor = 5 * time.Second
)

// AppendSQL are the statements that append to a store's tables.
type AppendSQL struct {
	// One appends one slice, if nobody has its row locked, and answers rows.Columns,
	// whether or not it did: $1 id, $2 token, $3 from, $4 seq, $5 text.
	One string

	// Now is One for a row that nobody is known to have locked: it takes the lock by
	// writing, which is cheaper, and waits for it as long as lock_timeout lets it.
	// It answers a row only if it has appended; Row answers it else: $1 id. "" if
	// there is only One.
	Now, Row string

	// Many appends those whose rows fit, of arrays of as much, and answers for each
	// its number, from 1, cancel and epoch. It waits for rows that are locked. ""
	// if there is only Free.
	Many string

	// Free is Many for those whose rows nobody has locked.
	Free string

	// Rows answers id and rows.Columns of the rows that there are: $1 ids.
	Rows string
}

// Appender appends to a store's tables, for a group. The ids of its slices can
// all be keys.
type Appender struct {
	Pool *pgxpool.Pool
	SQL  AppendSQL

	// Tokenless says that the tables have no place for tokens: rows have none, and
	// no writer is told from another by it.
	Tokenless bool

	// Patient says that the sessions may wait longer than LockTimeout for a lock.
	Patient bool

	careful atomic.Int64 // until then, in Unix nanoseconds
}

func (a *Appender) isCareful() bool { return time.Now().UnixNano() < a.careful.Load() }

func (a *Appender) beCareful() { a.careful.Store(time.Now().Add(carefulFor).UnixNano()) }

var _ group.Writer = (*Appender)(nil)

// One is a group.Writer's.
func (a *Appender) One(ctx context.Context, s plane.Slice) (row plane.Row, err error) {
	sql := a.SQL.Now
	if sql == "" || a.Patient || a.isCareful() {
		sql = a.SQL.One
	}
	err = rows.Scan(a.Pool.QueryRow(ctx, sql, s.ID, s.Token, s.From, s.Seq, s.Text), &row, nil)
	switch {
	case TimedOut(err) && !a.Patient:
		a.beCareful()
		row, err = a.solo(ctx, s)
	case Locked(err):
		a.beCareful()
	case errors.Is(err, plane.ErrNotFound) && sql != a.SQL.One: // or it does not fit
		err = rows.Scan(a.Pool.QueryRow(ctx, a.SQL.Row, s.ID), &row, nil)
	}
	return row, err
}

// solo is One for a slice that has waited for a lock in vain: not for its row's, which
// it does not wait for.
func (a *Appender) solo(ctx context.Context, s plane.Slice) (row plane.Row, err error) {
	batch := new(pgx.Batch)
	batch.Queue(batchSettingsSQL, soloPatience)
	batch.Queue(a.SQL.One, s.ID, s.Token, s.From, s.Seq, s.Text)
	results := a.Pool.SendBatch(ctx, batch)
	if _, err = results.Exec(); err == nil {
		err = rows.Scan(results.QueryRow(), &row, nil)
	}
	if closed := results.Close(); err == nil { // the transaction ends here
		err = closed
	}
	return row, err
}

// Many is a group.Writer's.
func (a *Appender) Many(ctx context.Context, slices []plane.Slice) ([]group.Answer, error) {
	if a.SQL.Many != "" && !a.isCareful() {
		answers, err := a.many(ctx, a.SQL.Many, slices)
		if !Locked(err) {
			return a.complete(ctx, slices, answers, err)
		}
		a.beCareful()
	}
	answers, err := a.many(ctx, a.SQL.Free, slices)
	return a.complete(ctx, slices, answers, err)
}

// many runs one of the statements that append many slices. A slice that it did not
// append has no status yet.
func (a *Appender) many(ctx context.Context, sql string, slices []plane.Slice) ([]group.Answer, error) {
	n := len(slices)
	ids, tokens, texts := make([]string, n), make([]string, n), make([]string, n)
	from, seq := make([]int64, n), make([]int64, n)
	for i, s := range slices {
		ids[i], tokens[i], texts[i], from[i], seq[i] = s.ID, s.Token, s.Text, s.From, s.Seq
	}
	batch := new(pgx.Batch)
	batch.Queue(batchSettingsSQL, lockPatience)
	batch.Queue(sql, ids, tokens, from, seq, texts)
	results := a.Pool.SendBatch(ctx, batch)
	answers, err := a.appended(results, slices)
	if closed := results.Close(); err == nil { // the transaction ends here
		err = closed
	}
	return answers, err
}

// appended reads who was appended to.
func (a *Appender) appended(results pgx.BatchResults, slices []plane.Slice) ([]group.Answer, error) {
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	found, err := results.Query()
	if err != nil {
		return nil, err
	}
	answers := make([]group.Answer, len(slices))
	var n, epoch int64
	var cancel bool
	_, err = pgx.ForEachRow(found, []any{&n, &cancel, &epoch}, func() error {
		s := slices[n-1]
		row := plane.Row{Seq: s.Seq, Status: plane.StatusStreaming, Cancel: cancel, Token: s.Token, Epoch: epoch}
		if a.Tokenless {
			row.Token = ""
		}
		answers[n-1].Row = row
		return nil
	})
	return answers, err
}

// complete answers those that were not appended with their rows as they are. One
// that could have been, by its row, was locked.
func (a *Appender) complete(ctx context.Context, slices []plane.Slice, answers []group.Answer, err error) ([]group.Answer, error) {
	if err != nil {
		return nil, err
	}
	missing := map[string]int{}
	var ids []string
	for n := range answers {
		if answers[n].Row.Status == "" {
			missing[slices[n].ID] = n
			ids = append(ids, slices[n].ID)
			answers[n].Err = plane.ErrNotFound
		}
	}
	if len(ids) == 0 {
		return answers, nil
	}
	found, err := a.Pool.Query(ctx, a.SQL.Rows, ids)
	if err != nil {
		return nil, err // they were appended, and a repeat says so
	}
	defer found.Close()
	for found.Next() {
		var id string
		var row plane.Row
		if err := rows.Scan(found, &row, &id); err != nil {
			return nil, err
		}
		n := missing[id]
		answers[n] = group.Answer{Row: row}
		if a.fits(slices[n], row) {
			answers[n] = group.Answer{Err: store.ErrBusy}
			a.beCareful()
		}
	}
	return answers, found.Err()
}

// fits reports whether a slice could be appended to a row. Without tokens the
// length and the status are all that tells, here as in the statements.
func (a *Appender) fits(s plane.Slice, row plane.Row) bool {
	return row.Seq == s.From && row.Status == plane.StatusStreaming && (a.Tokenless || row.Token == s.Token)
}

// Divisible is a group.Writer's.
func (a *Appender) Divisible(err error) bool { return OneRows(err) }
