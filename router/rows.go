package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
)

// rows are the store as requests see it: each call has a deadline, and what is
// no answer is wire.ErrUnavailable. A read ends with the request that it is for;
// a write does not.
type rows struct {
	store store.Store
	limit time.Duration // of one call
}

func (s rows) Get(ctx context.Context, id string) (store.Stream, error) {
	return bounded(ctx, s.limit, func(ctx context.Context) (store.Stream, error) { return s.store.Get(ctx, id) })
}

func (s rows) Cancel(ctx context.Context, id string) (plane.Row, error) {
	ctx = context.WithoutCancel(ctx)
	return bounded(ctx, s.limit, func(ctx context.Context) (plane.Row, error) { return s.store.Cancel(ctx, id) })
}

func (s rows) List(ctx context.Context, q store.Query) ([]store.Stream, error) {
	return bounded(ctx, s.limit, func(ctx context.Context) ([]store.Stream, error) { return s.store.List(ctx, q) })
}

func (s rows) Text(ctx context.Context, id string, from, limit int64) (store.Page, error) {
	return bounded(ctx, s.limit, func(ctx context.Context) (store.Page, error) { return s.store.Text(ctx, id, from, limit) })
}

func bounded[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := call(ctx)
	return v, unavailable(err)
}

// unavailable makes a failure of the store one that a client may try again
// after. Answers stay what they are.
func unavailable(err error) error {
	switch {
	case errors.Is(err, store.ErrNoCancel):
		return wire.Detail(wire.ErrUnsupported, "the message table has no column for cancel; ask the stream's producer to stop")
	case err == nil, errors.Is(err, plane.ErrNotFound), isHole(err):
		return err
	case errors.Is(err, store.ErrNoLease):
		return wire.Detail(wire.ErrUnavailable, "the node has lost its lease on the database, and writes nothing until it is renewed; try again, or another node")
	}
	return fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
}

// isHole reports whether a text lacks some of its rows, which trying again does not
// bring back.
func isHole(err error) bool {
	_, hole := errors.AsType[*plane.HoleError](err)
	return hole
}
