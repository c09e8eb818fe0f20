package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// CommitFunc persists one change of a stream for the application. It is called
// for one stream at a time, with a deadline in ctx; an error is retried, so that
// a change may come twice, and a longer one from the same offset may come after
// one whose answer was lost: it applies what it has not seen, or answers how far
// it is.
type CommitFunc func(ctx context.Context, change Change) (Answer, error)

// ChangeKind names a change of callback mode.
type ChangeKind string

// A stream is one open, then appends, then one close.
const (
	ChangeOpen   ChangeKind = "open"
	ChangeAppend ChangeKind = "append"
	ChangeClose  ChangeKind = "close"
)

// Change is what a CommitFunc persists. Offsets are UTF-16 code units.
type Change struct {
	Kind     ChangeKind
	StreamID string
	Meta     json.RawMessage // open
	Node     string          // open: who streams, node/incarnation
	Started  time.Time       // open: when it was asked for, the same in every repeat

	From int64  // append, close: what is confirmed so far
	Seq  int64  // append, close: the length after the change
	Text string // append: the text from From to Seq

	Body     string // close: the text from BodyFrom to Seq; the rest was confirmed and trimmed
	BodyFrom int64  // close
	Status   Status // close
	Error    string // close, when HasError
	HasError bool   // close
}

// Answer is what a CommitFunc says of a change it took. The zero Answer
// confirms all of it.
type Answer struct {
	Seq             *int64 // the length that is persisted, if not Change.Seq
	CancelRequested bool   // somebody asked to stop the stream
}

// callback is the Store of one stream in callback mode. It knows no tokens, and
// cannot be read back.
type callback struct {
	commit  CommitFunc
	started time.Time
}

func (c callback) Open(ctx context.Context, claim Claim) (Row, error) {
	a, err := c.commit(ctx, Change{
		Kind: ChangeOpen, StreamID: claim.ID, Meta: claim.Meta, Node: claim.Node, Started: c.started,
	})
	return Row{Epoch: 1, Cancel: a.CancelRequested}, err
}

func (c callback) Append(ctx context.Context, slice Slice) (Row, error) {
	a, err := c.commit(ctx, Change{
		Kind: ChangeAppend, StreamID: slice.ID, From: slice.From, Seq: slice.Seq, Text: slice.Text,
	})
	return a.row(slice.Seq), err
}

func (c callback) Seal(ctx context.Context, seal Seal) (Row, error) {
	a, err := c.commit(ctx, Change{
		Kind: ChangeClose, StreamID: seal.ID, From: seal.From, Seq: seal.Seq,
		Body: seal.Text, BodyFrom: seal.Base,
		Status: seal.Status, Error: seal.Error, HasError: seal.HasError,
	})
	if err != nil {
		return Row{}, err
	}
	row := a.row(seal.Seq)
	if row.Seq != seal.Seq {
		return Row{}, fmt.Errorf("close confirmed %d of %d", row.Seq, seal.Seq)
	}
	row.Status, row.Error = seal.Status, seal.Error
	return row, nil
}

func (c callback) Read(context.Context, string) (Row, error) { return Row{}, ErrNoReadBack }

func (a Answer) row(asked int64) Row {
	row := Row{Seq: asked, Epoch: 1, Cancel: a.CancelRequested}
	if a.Seq != nil {
		row.Seq = *a.Seq
	}
	return row
}
