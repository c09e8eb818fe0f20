package plane

import (
	"context"
	"errors"
	"fmt"
)

// Verify looks whether the row is still the stream's own. A node asks that of its
// streams when it comes back from where others may have taken it for dead: its row
// may have been sealed meanwhile, and a stream that has nothing to write would never be
// told (L). If the row is another's, gone or ended, the stream ends as by any write
// that finds that out, and the answer is ErrFenced. Where a write is under way, that
// one finds it out, and the answer is nil.
func (s *Stream) Verify(ctx context.Context) error {
	if !s.quiet() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := s.cfg.Store.Read(ctx, s.id)
	switch {
	case errors.Is(err, ErrNoReadBack):
		return nil
	case errors.Is(err, ErrNotFound):
		err = fmt.Errorf("%w: its row is gone: %w", ErrFenced, err)
	case err != nil:
		return fmt.Errorf("verify stream: %w", err)
	case row.Token == s.token && (row.Status == "" || row.Status == StatusStreaming):
		return nil
	default:
		err = fmt.Errorf("%w: the row is %s under token %q, ours is %q", ErrFenced, row.Status, row.Token, s.token)
	}
	s.mu.Lock()
	if s.inFlight || s.over != nil || s.move != nil {
		s.mu.Unlock()
		return nil
	}
	s.standDown(err)
	s.unlock()
	s.reportEnded()
	return err
}

// quiet reports whether the stream is live and writes nothing now.
func (s *Stream) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.inFlight && s.over == nil && s.move == nil
}
