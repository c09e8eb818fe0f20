package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Texts reads durable text back, a page at a time.
type Texts interface {
	// Page answers durable text of id that begins at offset from, or one below it
	// where from lies inside a pair, and where it begins. It has limit UTF-16 code
	// units, one less or more where that would cut a pair, unless the text ends
	// before or the page would be larger than the store answers. Text is there at
	// from; a HoleError says that it is missing.
	Page(ctx context.Context, id string, from, limit int64) (text string, at int64, err error)
}

// adoptedPage is how much text is asked for at once, in UTF-16 code units.
const adoptedPage = 512 << 10

// Adopt makes a stream live that another node has handed over: node, a
// node/incarnation, becomes the owner of its row, in the same epoch, and its
// producer goes on where the durable text ends, which is where the text ends.
// That is read back page by page. Where the Budget is too small for all of it, and
// as long as it is exceeded, the text in memory begins later: who reads below
// reads the durable plane.
//
// It is refused as by Handover.Adopt, which then has changed nothing, or with
// errors.ErrUnsupported. What else fails is repeated, by the policy. After another
// error the row may be the node's all the same, now or soon: see PutBack, and after
// ErrTextLost, where text is missing in the store, GiveBack.
func Adopt(ctx context.Context, cfg Config, id, node string) (*Stream, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	store, ok := cfg.Store.(Handover)
	if !ok || cfg.Texts == nil {
		return nil, fmt.Errorf("adopt stream: %w", errors.ErrUnsupported)
	}
	row, session, err := claimDisowned(ctx, &cfg, store, id, node)
	if err != nil {
		return nil, fmt.Errorf("adopt stream: %w", err)
	}
	s, err := revive(ctx, &cfg, id, row, session)
	if err != nil {
		return nil, fmt.Errorf("adopt stream: %w", err)
	}
	s.by.unnamed = row.Producer == ""
	return s, nil
}

// revive makes a row with text, which is the node's by now, a live stream.
func revive(ctx context.Context, cfg *Config, id string, row Row, session int64) (*Stream, error) {
	cancelled := row.Cancel
	row.Cancel = false
	s := newStream(cfg, id, row, session)
	s.durable, s.mark = row.Seq, row.Seq
	if err := s.load(ctx); err != nil {
		s.forget()
		return nil, fmt.Errorf("read its text: %w", err)
	}
	if cancelled { // only a whole text may be sealed
		s.Cancel()
	}
	return s, nil
}

// claimDisowned makes a row the node's. The producer's session is in the mark alone:
// an adoption whose answer was lost does not have it.
func claimDisowned(ctx context.Context, cfg *Config, store Handover, id, node string) (row Row, session int64, err error) {
	_, err = cfg.Policy.repeat(ctx, func() error {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Policy.StoreTimeout)
		defer cancel()
		found, err := cfg.Store.Read(call, id)
		if err == nil {
			session = max(session, found.Session())
			row, err = store.Adopt(call, id, found.Token, node)
		}
		return err
	}, func(err error) bool {
		return Refused(err) || final(err) || errors.Is(err, errors.ErrUnsupported)
	})
	return row, session, err
}

// load reads the text back. Nobody else knows s yet.
func (s *Stream) load(ctx context.Context) error {
	from := int64(0)
	if b := s.cfg.Budget; b != nil && b.Used()+s.durable > b.Limit() { // a unit is a byte at least
		from = max(0, s.durable-b.keep)
	}
	for at := from; at < s.durable; at = s.text.end() {
		page, start, err := s.page(ctx, at)
		switch {
		case err != nil:
			return err
		case at == from:
			s.floor, s.text = start, text{base: start, buf: slices.Grow([]byte(nil), int(s.durable-start))}
		}
		if page == "" || start != s.text.end() {
			return fmt.Errorf("%w: %w", ErrTextLost, &HoleError{At: at, Next: s.durable})
		}
		s.text.append(page, validUnits(page))
		s.weigh()
		if s.cfg.Budget.Exceeded() {
			s.trimTo(s.text.end() - s.cfg.Budget.keep)
		}
	}
	if s.text.end() != s.durable {
		return fmt.Errorf("the text ends at %d, the row says %d", s.text.end(), s.durable)
	}
	return nil
}

// page reads the text from at on.
func (s *Stream) page(ctx context.Context, at int64) (page string, start int64, err error) {
	p := s.cfg.Policy
	_, err = p.repeat(ctx, func() error {
		call, cancel := context.WithTimeout(ctx, p.StoreTimeout)
		defer cancel()
		page, start, err = s.cfg.Texts.Page(call, s.id, at, min(adoptedPage, s.durable-at))
		return err
	}, func(err error) bool {
		_, hole := errors.AsType[*HoleError](err)
		return hole || Refused(err) || final(err) || ctx.Err() != nil
	})
	if hole, ok := errors.AsType[*HoleError](err); ok {
		err = fmt.Errorf("%w: %w", ErrTextLost, hole)
	}
	return page, start, err
}

// PutBack sees to an Adopt, or a TakeOver, that failed without an answer, or to read
// the text: if node owns the row all the same it is disowned again, for another to adopt, or
// for the sweeper. Where the row is still to be adopted that is not settled: the
// statement may still be on its way. It is settled once the row is another's, or
// has been disowned anew.
func PutBack(ctx context.Context, cfg Config, id, node string) (settled bool, err error) {
	cfg, err = cfg.resolve()
	if err != nil {
		return false, err
	}
	store, ok := cfg.Store.(Handover)
	if !ok {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Policy.StoreTimeout)
	defer cancel()
	row, err := cfg.Store.Read(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("put adopted stream back: %w", err)
	case row.Disowned():
		return false, nil
	case row.Status != StatusStreaming || !strings.HasPrefix(row.Token, node+"/"):
		return true, nil
	}
	if _, err := store.Disown(ctx, id, row.Token, 0); err != nil {
		return false, fmt.Errorf("put adopted stream back: %w", err)
	}
	return true, nil
}
