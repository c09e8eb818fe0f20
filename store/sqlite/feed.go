package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/store/feed"
)

const (
	// sayingSQL: ?1 now. Who reads news has a lease; a node that is alone tells nobody.
	sayingSQL = `SELECT count(*) > 1 FROM nodes WHERE expires_at > ?1`

	saySQL = `INSERT INTO news (at, message) VALUES (?1, ?2)`

	// forgetSQL: ?1 before when. It reads what it deletes.
	forgetSQL = `
		DELETE FROM news
		WHERE n < coalesce((SELECT n FROM news WHERE at >= ?1 ORDER BY n LIMIT 1), 9223372036854775807)`

	newestSQL = `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'news'`

	// newsSQL: ?1 the last that is known, ?2 how many.
	newsSQL = `SELECT n, message FROM news WHERE n > ?1 ORDER BY n LIMIT ?2`

	// cancelledSQL: ?1 beginning of the token, ?2 ids after.
	cancelledSQL = `
		SELECT id FROM streams
		WHERE cancel AND status = 'streaming' AND id > ?2 AND substr(host, 1, length(?1)) = ?1
		ORDER BY id LIMIT 1000`
)

// How the news are read. A look costs as much as asking the file whether anything
// has changed.
const (
	lookOften  = 100 * time.Millisecond // while there is news
	lookSeldom = 250 * time.Millisecond // when there was none for calm
	calm       = 5 * time.Second
	newsKept   = 10 * time.Second
	newsAtOnce = 64
)

var errMissed = errors.New("news are gone that were not read")

// Notify tells messages to all who listen, in this order: all or none. Each has
// feed.MaxMessage bytes at the most. Where one node alone has a lease nobody
// listens, and nothing is written.
func (s *Store) Notify(ctx context.Context, messages []string) error {
	for _, m := range messages {
		if len(m) > feed.MaxMessage {
			return fmt.Errorf("notify: a message has %d bytes", len(m))
		}
	}
	err := s.do(func() error {
		var others bool
		if err := s.reads.QueryRowContext(ctx, sayingSQL, now()).Scan(&others); err != nil || !others {
			return err
		}
		return s.writer.write(ctx, func(stmt statements) error {
			now := now()
			for _, m := range messages {
				if _, err := stmt.exec(saySQL, now, m); err != nil {
					return err
				}
			}
			_, err := stmt.exec(forgetSQL, now-newsKept.Microseconds())
			return err
		})
	})
	return wrap("notify", err)
}

// Listen hears what is told until ctx is done; see feed.Listen.
func (s *Store) Listen(ctx context.Context, to feed.Listener) {
	feed.Listen(ctx, func(ctx context.Context) (feed.Session, error) {
		l := &listener{store: s, told: time.Now()}
		err := s.do(func() error { return s.reads.QueryRowContext(ctx, newestSQL).Scan(&l.last) })
		return l, wrap("listen", err)
	}, to)
}

// listener is a feed.Session: somebody who looks for news.
type listener struct {
	store *Store
	last  int64  // that was read
	queue []news // read, and yet to be told
	told  time.Time
}

type news struct {
	n       int64
	message string
}

// Receive waits for a message. See feed.Session.
func (l *listener) Receive(ctx context.Context) (string, error) {
	for len(l.queue) == 0 {
		pause := lookOften
		if time.Since(l.told) > calm {
			pause = lookSeldom
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if err := l.look(ctx); err != nil {
			return "", err
		}
	}
	next := l.queue[0]
	l.queue = l.queue[1:]
	l.told = time.Now()
	if next.n != l.last+1 {
		return "", errMissed
	}
	l.last = next.n
	return next.message, nil
}

func (l *listener) look(ctx context.Context) error {
	return l.store.do(func() (err error) {
		l.queue, err = collect(func(from *sql.Rows) (one news, err error) {
			err = from.Scan(&one.n, &one.message)
			return one, err
		})(l.store.reads.QueryContext(ctx, newsSQL, l.last, newsAtOnce))
		return err
	})
}

// Ping does nothing: who looks sees whether the file is there.
func (l *listener) Ping(context.Context) error { return nil }

// Close does nothing: a listener holds nothing.
func (l *listener) Close() {}

// Cancelled answers the streams that node, a node/incarnation, has live and that
// were asked to stop, in the order of their ids. It costs as much as there are of
// those, of all nodes.
func (s *Store) Cancelled(ctx context.Context, node string) (ids []string, err error) {
	scan := func(from *sql.Rows) (id string, err error) {
		err = from.Scan(&id)
		return id, err
	}
	for after := ""; ; after = ids[len(ids)-1] {
		var page []string
		err := s.do(func() (err error) {
			page, err = collect(scan)(s.reads.QueryContext(ctx, cancelledSQL, node+"/", after))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find cancelled streams: %w", err)
		}
		if ids = append(ids, page...); len(page) < 1000 {
			return ids, nil
		}
	}
}
