package storetest

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Open claims a stream. See plane.Store.
func (m *Memory) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	call := Call{Kind: "open", ID: claim.ID}
	return answer(m, call, func() (plane.Row, error) {
		var own bool
		row, err := read(ctx, m, func() (row plane.Row, err error) {
			row, own, err = m.probe(claim)
			return row, err
		})
		if err != nil || own {
			return row, err
		}
		return write(ctx, m, call, func() (plane.Row, error) { return m.claim(claim) })
	})
}

// Append adds a slice. See plane.Store.
func (m *Memory) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	call := Call{Kind: "append", ID: slice.ID, From: slice.From, Seq: slice.Seq, Text: slice.Text}
	return answer(m, call, func() (plane.Row, error) {
		if err := rows.CheckLength(slice.From, slice.Seq, slice.Text); err != nil {
			return plane.Row{}, err
		}
		row, err := write(ctx, m, call, func() (plane.Row, error) { return m.add(slice) })
		if err == nil {
			err = m.readBack(ctx)
		}
		return row, err
	})
}

// Seal ends a stream. See plane.Store.
func (m *Memory) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	call := Call{Kind: "seal", ID: seal.ID, From: seal.From, Seq: seal.Seq, Text: seal.Text}
	return answer(m, call, func() (plane.Row, error) {
		if err := rows.CheckLength(seal.Base, seal.Seq, seal.Text); err != nil {
			return plane.Row{}, err
		}
		return write(ctx, m, call, func() (plane.Row, error) { return m.seal(seal) })
	})
}

// Read answers a stream's row. See plane.Store.
func (m *Memory) Read(ctx context.Context, id string) (plane.Row, error) {
	return look(ctx, m, "read", id, func(r *Row) (plane.Row, error) { return m.row(r), nil })
}

// Cancel sets the cancel flag. See store.Store.
func (m *Memory) Cancel(ctx context.Context, id string) (plane.Row, error) {
	call := Call{Kind: "cancel", ID: id}
	return answer(m, call, func() (plane.Row, error) {
		return write(ctx, m, call, func() (plane.Row, error) {
			r, err := m.find(id)
			if err != nil {
				return plane.Row{}, err
			}
			defer m.note("cancel", id, "")()
			r.Cancel = r.Cancel || !r.Status.Ended()
			return m.row(r), nil
		})
	})
}

// Get answers all of a stream but its text. See store.Store.
func (m *Memory) Get(ctx context.Context, id string) (store.Stream, error) {
	return look(ctx, m, "get", id, func(r *Row) (store.Stream, error) { return m.stream(id, r), nil })
}

// Text answers a page of text. See store.Store.
func (m *Memory) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	return look(ctx, m, "text", id, func(r *Row) (store.Page, error) {
		from, limit := rows.Window(from, limit)
		return rows.Page(m.row(r), r.HasError, from, limit, m.pieces(id, r))
	})
}

// look reads one row.
func look[T any](ctx context.Context, m *Memory, kind, id string, do func(*Row) (T, error)) (T, error) {
	return answer(m, Call{Kind: kind, ID: id}, func() (T, error) {
		return read(ctx, m, func() (result T, err error) {
			r, err := m.find(id)
			if err != nil {
				return result, err
			}
			return do(r)
		})
	})
}

// List answers a page of streams. See store.Store.
func (m *Memory) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	return answer(m, Call{Kind: "list"}, func() ([]store.Stream, error) {
		if err := rows.CheckQuery(q); err != nil {
			return nil, err
		}
		return read(ctx, m, func() ([]store.Stream, error) { return m.list(q), nil })
	})
}

// Ping is a read of nothing.
func (m *Memory) Ping(ctx context.Context) error {
	return m.underWay.Do(func() error {
		_, err := read(ctx, m, func() (struct{}, error) { return struct{}{}, nil })
		return err
	})
}

// Close waits for calls under way. See store.Store.
func (m *Memory) Close(ctx context.Context) error {
	return m.underWay.Close(ctx, func() error { return nil })
}
