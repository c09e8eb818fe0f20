package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	queueSize = 256 // writes that may wait; a further one waits for room
	batchSize = 64  // writes in one transaction
)

// writer is the one goroutine that writes. It takes all writes that wait into
// one transaction and answers them after its commit; one that fails is undone
// alone.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	stmt  statements
	queue chan *job
	done  chan struct{} // closed when the goroutine has ended
	err   error         // of the closing; read after done
}

// job is one write.
type job struct {
	ctx    context.Context
	do     func(statements) error
	result chan error // buffered
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{
		db: db, conn: conn, queue: make(chan *job, queueSize), done: make(chan struct{}),
	}
	if w.stmt, err = prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go w.run()
	return w, nil
}

// write runs do in a transaction and answers once that is durable, or ctx is
// done: then do may have run, may be running and may still run, so that what it
// sets must not be looked at.
func (w *writer) write(ctx context.Context, do func(statements) error) error {
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	select {
	case w.queue <- j:
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
	for j := range w.queue {
		w.commit(w.collect(j))
	}
	w.err = errors.Join(w.conn.Close(), w.db.Close())
}

// collect adds to first what waits already.
func (w *writer) collect(first *job) []*job {
	jobs := []*job{first}
	for len(jobs) < batchSize {
		select {
		case j, ok := <-w.queue:
			if !ok {
				return jobs
			}
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

// commit runs jobs in one transaction and answers them. No context reaches the
// statements: an interrupt would take the neighbours' work along.
func (w *writer) commit(jobs []*job) {
	results := make([]error, len(jobs))
	err := w.transact(jobs, results)
	for n, j := range jobs {
		if results[n] == nil {
			results[n] = err
		}
		j.result <- results[n]
	}
}

func (w *writer) transact(jobs []*job, results []error) error {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for n, j := range jobs {
		if results[n] = j.ctx.Err(); results[n] != nil {
			continue // nobody waits for it
		}
		if err := w.exec("SAVEPOINT one"); err != nil {
			return w.rollback(err)
		}
		if results[n] = j.do(w.stmt); results[n] != nil {
			if err := w.exec("ROLLBACK TO one"); err != nil {
				return w.rollback(errors.Join(results[n], err))
			}
		}
		if err := w.exec("RELEASE one"); err != nil {
			return w.rollback(err)
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return w.rollback(err)
	}
	return nil
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
