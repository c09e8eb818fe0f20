package plane

import (
	"context"
	"errors"
	"fmt"
)

// TakeBack ends a stream that was handed over and that nobody adopts: its row is
// sealed interrupted, with all of its text, which is durable. left is the row as it
// was given up. The seal goes by the mark: of it and an adoption by the same mark
// one takes effect, however late the other arrives. It is tried until that is known,
// or ctx ends.
//
// The answer is the row as it is then: ended, or another node's, or disowned anew by
// one that had it. ErrNotFound if it is gone.
func TakeBack(ctx context.Context, cfg Config, id string, left Row) (Row, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return Row{}, err
	}
	for n := 0; ; n++ {
		row, err := sealDisowned(ctx, &cfg, id, left)
		if err == nil {
			if row.Status.Ended() && row.Token == left.Token {
				cfg.repaired(id, row)
			}
			return row, nil
		}
		if errors.Is(err, ErrNotFound) || !rest(cfg.Policy.retryDelay(n), ctx.Done()) {
			return Row{}, fmt.Errorf("take stream back: %w", err)
		}
	}
}

// sealDisowned asks the store once, and on failure whether it is known all the same
// what became of the row.
func sealDisowned(ctx context.Context, cfg *Config, id string, left Row) (Row, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := cfg.Store.Seal(ctx, Seal{
		ID: id, Token: left.Token, Status: StatusInterrupted, From: left.Seq, Base: left.Seq, Seq: left.Seq,
	})
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		var unread error
		row, unread = cfg.Store.Read(ctx, id)
		known = unread == nil
	}
	switch {
	case known && (row.Status != StatusStreaming || row.Token != left.Token):
		return row, nil
	case err == nil:
		err = errors.New("the store did not seal the row")
	}
	return Row{}, err
}
