package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// What bounds a transaction, beside what waits for it: so long others wait, in
// this process and in others.
const (
	queueSize = 256 // writes that may wait; a further one waits for room
	batchSize = 256
	batchTime = 20 * time.Millisecond
)

const (
	lockTime = 5 * time.Second        // for other processes' transactions to end
	turnTime = 250 * time.Millisecond // of it for the turn
)

// writer is the one goroutine that writes. It takes all writes that wait into
// one transaction and answers them after its commit; one that fails is undone
// alone.
type writer struct {
	db     *sql.DB
	conn   *sql.Conn
	stmt   statements
	turn   turn
	place  place
	queue  chan *job
	urgent chan *job     // those that no checkpoint may keep back; nobody queues there
	done   chan struct{} // closed when the goroutine has ended
	err    error         // of the closing; read after done

	checkAt time.Time     // when to look at the log's size
	trimmed time.Duration // the pause before that
}

// job is one write.
type job struct {
	ctx    context.Context
	do     func(statements) error
	result chan error // buffered
}

func newWriter(ctx context.Context, db *sql.DB, path string, turn turn) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{
		db: db, conn: conn, turn: turn,
		queue: make(chan *job, queueSize), urgent: make(chan *job), done: make(chan struct{}),
	}
	if w.stmt, err = prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := w.exec("PRAGMA busy_timeout = 0"); err != nil { // begin waits, more evenly
		return nil, errors.Join(err, conn.Close())
	}
	if w.place, err = placeOf(path); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go w.run()
	return w, nil
}

// write runs do in a transaction and answers once that is durable, or ctx is
// done: then do may have run, may be running and may still run, so that what it
// sets must not be looked at.
func (w *writer) write(ctx context.Context, do func(statements) error) error {
	return submit(ctx, w.queue, do)
}

// writeSoon is write for what may not wait behind all that waits already.
func (w *writer) writeSoon(ctx context.Context, do func(statements) error) error {
	return submit(ctx, w.urgent, do)
}

func submit(ctx context.Context, queue chan<- *job, do func(statements) error) error {
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	select {
	case queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-j.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the goroutine and closes the connection, when nobody writes any
// more. What a caller that left has queued is still looked at.
func (w *writer) close() error {
	close(w.queue)
	<-w.done
	return w.err
}

func (w *writer) run() {
	defer close(w.done)
	for j := w.wait(); j != nil; j = w.wait() {
		w.commit(j)
		w.trim()
	}
	w.err = errors.Join(w.conn.Close(), w.db.Close())
}

// wait returns the next write; nil if there will be none.
func (w *writer) wait() *job {
	if j := w.next(); j != nil {
		return j
	}
	select {
	case j := <-w.urgent:
		return j
	case j := <-w.queue:
		return j
	}
}

// next returns a write that waits already; nil if none does.
func (w *writer) next() *job {
	select {
	case j := <-w.urgent:
		return j
	default:
	}
	select {
	case j := <-w.queue:
		return j
	default:
		return nil
	}
}

// commit runs a write, and those that wait already, in one transaction and answers
// them. No context reaches the statements: an interrupt would take the neighbours'
// work along.
func (w *writer) commit(first *job) {
	jobs, results, err := w.transact(first)
	for n, j := range jobs {
		if results[n] == nil {
			results[n] = err
		}
		j.result <- results[n]
	}
}

func (w *writer) transact(first *job) (jobs []*job, results []error, err error) {
	if err := w.begin(first); err != nil {
		for j := first; j != nil; j = w.next() { // all have waited
			jobs = append(jobs, j)
		}
		return jobs, make([]error, len(jobs)), fmt.Errorf("begin: %w", err)
	}
	began := time.Now()
	for j := first; j != nil; j = w.next() {
		result, err := w.one(j)
		jobs, results = append(jobs, j), append(results, result)
		if err != nil {
			return jobs, results, w.rollback(err)
		}
		if len(jobs) == batchSize || time.Since(began) > batchTime {
			break
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return jobs, results, w.rollback(err)
	}
	return jobs, results, nil
}

// begin begins a transaction, once no other process has one, for as long as
// somebody waits for it.
func (w *writer) begin(first *job) error {
	if err := w.place.check(); err != nil {
		return err
	}
	leave := w.turn.take(turnTime)
	defer leave()
	for began := time.Now(); ; <-time.After(lockPoll) {
		err := w.exec("BEGIN IMMEDIATE")
		if !busy(err) || time.Since(began) > lockTime || first.ctx.Err() != nil && len(w.queue) == 0 {
			return err
		}
	}
}

// one runs one write of a transaction. err is what fails all of them.
func (w *writer) one(j *job) (result, err error) {
	if result = j.ctx.Err(); result != nil {
		return result, nil // nobody waits for it
	}
	if err := w.exec("SAVEPOINT one"); err != nil {
		return nil, err
	}
	if result = j.do(w.stmt); result != nil {
		if err := w.exec("ROLLBACK TO one"); err != nil {
			return result, errors.Join(result, err)
		}
	}
	return result, w.exec("RELEASE one")
}

// rollback ends a transaction that failed as a whole. Some failures end it by
// themselves, so that there is nothing left to roll back.
func (w *writer) rollback(cause error) error {
	_ = w.exec("ROLLBACK")
	return fmt.Errorf("commit: %w", cause)
}

func (w *writer) exec(sql string) error {
	_, err := w.conn.ExecContext(context.Background(), sql)
	return err
}

// What keeps the write-ahead log short. SQLite copies it into the file as it grows,
// and begins it anew only at a moment when nobody reads it: with readers in many
// processes there may be none.
const (
	trimEvery = 50 * time.Millisecond
	trimPages = 4096            // of 4 KiB
	trimTime  = 300             // ms that writers wait for those who read
	trimPause = 2 * time.Second // at the longest, while somebody who reads for longer is waited for in vain
)

// trim begins the log anew where it has become long, holding up new writers until
// those who read it have ended. What could not be done now is done later: it costs
// space alone.
func (w *writer) trim() {
	if time.Now().Before(w.checkAt) {
		return
	}
	pause := trimEvery
	if _, pages := w.checkpoint("NOOP"); pages >= trimPages {
		_ = w.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", trimTime))
		if done, _ := w.checkpoint("RESTART"); !done {
			pause = min(2*max(w.trimmed, trimEvery), trimPause)
		}
		_ = w.exec("PRAGMA busy_timeout = 0")
	}
	w.trimmed, w.checkAt = pause, time.Now().Add(pause)
}

// checkpoint does one of a kind, and answers whether it was done and how long the
// log is.
func (w *writer) checkpoint(kind string) (done bool, pages int) {
	var blocked, copied int
	err := w.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+kind+")").Scan(&blocked, &pages, &copied)
	return err == nil && blocked == 0, pages
}
