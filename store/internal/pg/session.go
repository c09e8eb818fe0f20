package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// goodbyeTime bounds the end of a connection beside the pool.
const goodbyeTime = time.Second

// session is a connection beside the pool, which no other call can deny to its
// user. It is made when it is first needed, and anew when it was lost.
type session struct {
	cfg  *pgx.ConnConfig
	turn chan struct{} // full while somebody uses conn
	conn *pgx.Conn     // nil while there is none
}

func newSession(cfg *pgx.ConnConfig) session {
	cfg = cfg.Copy()
	// The next call has no time to wait for what the server makes of a cancel request.
	atItsDeadline(cfg)
	return session{cfg: cfg, turn: make(chan struct{}, 1)}
}

// do makes a call that may be repeated: once more, on a new connection, if the one
// that was there is of no use any more.
func (s *session) do(ctx context.Context, call func(*pgx.Conn) error) error {
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
		err := call(s.conn)
		if s.conn.IsClosed() {
			s.conn = nil
		} else if !demoted(err) {
			return err
		} else if err := s.close(); err != nil {
			return err
		}
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
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	conn := s.conn
	s.conn = nil
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("close the lease's session: %w", err)
	}
	return nil
}
