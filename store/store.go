// Package store is the durable plane: the rows that hold streams and their
// text. It says what a database must do for a node; the databases are its
// subpackages. Package storetest is the contract as tests.
//
// A stream is one row, and while it is live one chunk row for each checkpoint:
// a growing column would be rewritten each time. The row holds the length, the
// status and the owner token; every write but a cancel is conditional on them,
// so that a repeat changes nothing and a writer that lost the row reaches
// nothing. The seal folds the chunks into the row's body.
//
// Offsets and lengths are UTF-16 code units, as in package plane.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

var (
	// ErrNewerSchema says that a later release has changed the tables.
	ErrNewerSchema = errors.New("database was migrated by a newer release")

	// ErrBusy says that another session holds a lock on what a call needs, as a
	// rule the stream's row. The call has changed nothing; try it again later.
	ErrBusy = plane.ErrBusy

	// ErrNoCancel says that the tables have no place for the cancel flag. Tables of
	// an application's need not have one.
	ErrNoCancel = errors.New("tables have no cancel flag")

	// ErrNameInUse says that a node of the same name is running on the same
	// tables: what looks like an earlier run is that node.
	ErrNameInUse = errors.New("another node of that name is running")
)

// Store is a database of streams. Its methods are safe for concurrent use and
// end when their context does; one that fails may or may not have taken effect.
//
// Unless they say otherwise they answer plane.ErrNotFound if there is no such
// stream.
//
// Every call may be repeated as it was, also while the failed one may still be
// running: of the two at most one takes effect, and the answer is the row that
// this leaves. A repeated Append or Seal adds nothing, and its answer shows
// whether the first one did; a repeated Open answers its own claim as long as
// the stream is empty; Cancel, Disown, Adopt and TakeOver find done what they
// did. What a repeat cannot mend is a refusal of package plane, plane.ErrBroken, a
// plane.HoleError, text that does not span its offsets, a name or a status that
// is none, and a closed store.
type Store interface {
	plane.Store
	plane.Handover
	plane.Takeover

	// Cancel sets the cancel flag of a stream that has not ended, and answers
	// the row as it is then. The flag of one that has ended stays as it is.
	// ErrNoCancel where there is no flag.
	Cancel(ctx context.Context, id string) (plane.Row, error)

	// Get answers all of a stream but its text.
	Get(ctx context.Context, id string) (Stream, error)

	// Text answers the page of durable text that begins at offset from, or one
	// below it where from lies inside a surrogate pair. from is clamped to
	// [0, Seq]. A page ends at the text's end or holds limit units, one less or
	// more where that would cut a pair; 0 means DefaultPage, and the most is
	// MaxPage. Text and row are of one snapshot. A plane.HoleError if text is
	// missing.
	Text(ctx context.Context, id string, from, limit int64) (Page, error)

	// List answers the streams that q asks for, in the order of the bytes of
	// their ids; none is no error.
	List(ctx context.Context, q Query) ([]Stream, error)

	// Ping reports whether the database answers.
	Ping(ctx context.Context) error

	// Close takes no more calls and waits for those under way. If ctx ends
	// before they do, Close says so, and the database is closed when the last
	// of them has ended; another Close waits for that.
	Close(ctx context.Context) error
}

// Stream is all of a row but its text. Its Producer is its own, not the Row's.
type Stream struct {
	ID string
	plane.Row
	HasError bool            // an error with an empty message is still one
	Producer string          // as claimed
	Meta     json.RawMessage // as claimed, or sealed, byte for byte; nil if none
	Created  time.Time       // by the database's clock, as the next two; zero if it does not say
	Updated  time.Time       // when the row last changed
	Ended    time.Time       // zero while the stream has not ended
}

const (
	DefaultPage int64 = 64 << 10 // units in a page that asks for no number
	MaxPage     int64 = 1 << 20  // units in the largest page
)

// Page is a stretch of a stream's durable text, and the row at that moment.
type Page struct {
	plane.Row
	HasError bool
	From     int64  // offset at which Text begins
	Text     string // valid UTF-8; "" only at the end of the text
}

// End is the offset at which the page's text ends: where the next page begins.
func (p Page) End() int64 { return p.From + plane.Units(p.Text) }
