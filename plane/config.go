package plane

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// DefaultRetain is how much durable text, in UTF-16 code units, a stream keeps
// in memory for late readers when the application persists for itself.
const DefaultRetain = 64 << 10

// Config says how a node's streams work. One Config serves many streams; it is
// not changed after the first Open. Exactly one of Store and Commit is set.
type Config struct {
	// Store keeps the text in tables. A stream then holds its whole text in
	// memory while it lives, as far as the Budget lets it.
	Store Store

	// Commit hands each change to the application, which persists for itself
	// (callback mode).
	Commit CommitFunc

	// Texts reads durable text back, for streams that are adopted or taken over. Without it, or
	// if the Store is no Handover, Adopt answers errors.ErrUnsupported; TakeOver likewise.
	Texts Texts

	// Retain, in callback mode only, is how many durable units stay in memory;
	// nil means DefaultRetain. A reader that joins below gets stale.
	Retain *int64

	// Budget bounds the text in memory, of all streams together; nil is no bound.
	Budget *Budget

	// Clock is the time by which streams know when their producer was heard of; nil is
	// none.
	Clock *Clock

	Policy Policy       // the zero value means DefaultPolicy
	Hooks  Hooks        // told what happens; all optional
	Logger *slog.Logger // nil discards
}

// Hooks are told what happens to streams, without any lock held. A panic in one
// is caught and logged; a slow one delays only the stream it was called for.
type Hooks struct {
	// Checkpoint is told how each round went. If nil, failures are logged.
	Checkpoint func(Checkpoint)

	// Replaced is told how many characters became U+FFFD at the door.
	Replaced func(id string, n int64)

	// Exceeded is told after each push while the Budget is exceeded.
	Exceeded func()

	// Moved is told once, when the stream is another node's to adopt, before its
	// readers are.
	Moved func(s *Stream, m Moved)

	// Ended is told once, when the stream has ended for its readers.
	Ended func(s *Stream, end Ending)

	// Repaired is told of a row that Reseal, GiveBack or TakeBack has ended.
	Repaired func(id string, row Row)
}

// Checkpoint is one round: the units From..Seq, as often as they were tried.
type Checkpoint struct {
	StreamID  string
	From, Seq int64 // UTF-16 code units
	Seal      bool  // the stream's last write, of its whole text
	Attempts  int
	Took      time.Duration
	Err       error // not durable yet: the retries were used up, or a seal took over
}

// resolve returns c with its defaults filled in, for one stream, or why it is
// refused.
func (c Config) resolve() (Config, error) {
	switch {
	case c.Store == nil && c.Commit == nil:
		return c, fmt.Errorf("%w: a plane needs a Store or a Commit function", ErrConfig)
	case c.Store != nil && c.Commit != nil:
		return c, fmt.Errorf("%w: a plane takes a Store or a Commit function, not both", ErrConfig)
	case c.Commit == nil && c.Retain != nil:
		return c, fmt.Errorf("%w: Retain is for callback mode; tables keep what the Budget lets them", ErrConfig)
	case c.Retain != nil && *c.Retain < 0:
		return c, fmt.Errorf("%w: Retain must be 0 or more", ErrConfig)
	}
	if c.Commit != nil {
		c.Store = callback{c.Commit, time.Now()}
		if c.Retain == nil {
			retain := int64(DefaultRetain)
			c.Retain = &retain
		}
	}
	if c.Policy == (Policy{}) {
		c.Policy = DefaultPolicy()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.Policy.Validate()
}

// Validate reports why c would be refused by Open.
func (c Config) Validate() error {
	_, err := c.resolve()
	return err
}

// guard runs a hook, so that one that panics costs nobody else (I).
func (s *Stream) guard(hook string, call func()) { s.cfg.guard(s.id, hook, call) }

func (c *Config) guard(id, hook string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			c.Logger.LogAttrs(context.Background(), slog.LevelError, "hook panicked",
				slog.String("streamId", id), slog.String("hook", hook), slog.Any("panic", p))
		}
	}()
	call()
}

// repaired tells the hook of an end that was written late.
func (c *Config) repaired(id string, row Row) {
	if c.Hooks.Repaired != nil {
		c.guard(id, "Repaired", func() { c.Hooks.Repaired(id, row) })
	}
}
