package store

import (
	"context"

	"rillkeep.dev/rillkeep/plane"
)

// Texts returns s as one who adopts a stream reads its text.
func Texts(s Store) plane.Texts { return texts{s} }

type texts struct{ store Store }

// Page answers a page of durable text. See plane.Texts.
func (t texts) Page(ctx context.Context, id string, from, limit int64) (text string, at int64, err error) {
	page, err := t.store.Text(ctx, id, from, limit)
	return page.Text, page.From, err
}
