package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// session is a connection beside the pool, which no other call can deny to its
// user. It is made when it is first needed, and anew when it was lost.
type session struct {
	cfg  *pgx.ConnConfig
	turn chan struct{} // full while somebody uses conn
	conn *pgx.Conn     // nil while there is none
}

func newSession(cfg *pgx.ConnConfig) session {
	cfg = cfg.Copy()
	// A call whose context ends gives the connection up at once: the next one has
	// no time to wait for what the server makes of a cancel request.
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	return session{cfg: cfg, turn: make(chan struct{}, 1)}
}

// exec runs a statement that may be repeated: once more, on a new connection, if
// the one that was there is lost.
func (s *session) exec(ctx context.Context, sql string, args ...any) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		fresh := s.conn == nil
		if fresh {
			conn, err := pgx.ConnectConfig(ctx, s.cfg)
			if err != nil {
				return err
			}
			s.conn = conn
		}
		_, err := s.conn.Exec(ctx, sql, args...)
		if !s.conn.IsClosed() {
			return err
		}
		s.conn = nil
		if err == nil || fresh || ctx.Err() != nil {
			return err
		}
	}
}

// close says goodbye to the server. Nobody may be using the session.
func (s *session) close() error {
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := s.conn.Close(ctx); err != nil {
		return fmt.Errorf("close the lease's session: %w", err)
	}
	return nil
}
