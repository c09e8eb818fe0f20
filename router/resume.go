package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
)

// resumable serves a resume here where the member can't be asked that the ring
// proposes, if nobody has the stream: its row decides who takes it.
func (r *Router) resumable(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if errors.Is(err, errNoHost) && !c.Response().Committed {
			return r.stranded(c, err)
		}
		return err
	}
}

// stranded is a resume, or answers why not.
func (r *Router) stranded(c echo.Context, why error) error {
	var body wire.Open
	if err := r.decode(c, &body); err != nil || !body.Resume {
		return why
	}
	claim := plane.Claim{ID: streamID(c), Producer: body.Producer}
	resumed, err := r.resume(c.Request().Context(), claim, plane.Attempt{Instance: body.Instance, Count: body.Attempt})
	if err != nil {
		return why
	}
	return c.JSON(http.StatusOK, resumed)
}

// resume answers an open of a stream that is there: where its producer goes on, in
// another producer epoch, or how it ended. It answers plane.ErrNotFound for one that
// is yet to be opened. A stream that lives needs no store for this.
func (r *Router) resume(ctx context.Context, claim plane.Claim, by plane.Attempt) (wire.Opened, error) {
	if s, ok := r.cfg.Actors.Await(ctx, claim.ID); ok {
		if r.waits() {
			return wire.Opened{}, errWaits
		}
		return r.resumed(ctx, s, claim, by)
	}
	row, err := r.rows.Get(ctx, claim.ID)
	switch {
	case err != nil:
		return wire.Opened{}, err
	case row.Status.Ended():
		return ended(row), nil
	case row.Status != plane.StatusStreaming:
		return wire.Opened{}, plane.ErrNotFound
	}
	s, err := r.takeUp(ctx, row)
	switch {
	case errors.Is(err, errGone), errors.Is(err, errLeft), errors.Is(err, plane.ErrHeld) && (r.cfg.Cluster == nil || r.cfg.Cluster.Waits(plane.NodeOf(row.Token))):
		return r.takeOver(ctx, claim, by)
	case err != nil:
		return wire.Opened{}, err
	}
	return r.resumed(ctx, s, claim, by)
}

// resumed is the resumption of a stream that is here.
func (r *Router) resumed(ctx context.Context, s *plane.Stream, claim plane.Claim, by plane.Attempt) (wire.Opened, error) {
	as, err := s.ResumeBy(claim.Producer, by)
	switch {
	case errors.Is(err, plane.ErrClosed):
		row, err := r.rows.Get(ctx, claim.ID)
		if err == nil && !row.Status.Ended() {
			err = wire.Detail(wire.ErrUnavailable, "the stream is being sealed; try again")
		}
		return ended(row), err
	case errors.Is(err, plane.ErrSuperseded):
		return wire.Opened{}, err
	case errors.Is(err, plane.ErrFenced): // its row is another node's by now
		return wire.Opened{}, errLease
	case errors.Is(err, plane.ErrHeld):
		return wire.Opened{}, wire.Detail(plane.ErrHeld, "the stream has another producer; give the producer that it was opened with")
	case err != nil:
		return wire.Opened{}, err
	}
	return opened(s, as), nil
}

// ended answers a resume of a stream that has ended.
func ended(row store.Stream) wire.Opened {
	return wire.Opened{StreamID: row.ID, Seq: row.Seq, DurableSeq: row.Seq, Epoch: row.Epoch, Status: row.Status, Error: row.Error}
}

// takeOver makes a stream live here whose owner died: its producer is back.
func (r *Router) takeOver(ctx context.Context, claim plane.Claim, by plane.Attempt) (wire.Opened, error) {
	s, err := r.cfg.Actors.TakeOver(ctx, claim)
	switch {
	case err == nil:
		s.BegunBy(by)
		st := s.State()
		r.Announce(feed.Change{ID: claim.ID, Seq: st.Durable, Epoch: s.Epoch(), Status: plane.StatusStreaming})
		r.log.LogAttrs(ctx, slog.LevelInfo, "stream taken over", slog.String("streamId", claim.ID),
			slog.Int64("epoch", s.Epoch()), slog.Int64("seq", st.Durable))
		return opened(s, s.ProducerEpoch()), nil
	case errors.Is(err, plane.ErrOpenHere): // another resume was faster
		if s, ok := r.cfg.Actors.Await(ctx, claim.ID); ok {
			return r.resumed(ctx, s, claim, by)
		}
		return wire.Opened{}, errLease
	case errors.Is(err, plane.ErrHeld) && r.cfg.Cluster == nil:
		return wire.Opened{}, err
	case errors.Is(err, plane.ErrHeld), errors.Is(err, plane.ErrLostRace):
		return wire.Opened{}, errLease
	default:
		return wire.Opened{}, notLive(err)
	}
}

// takeUp answers a stream that is streaming by its row and was not here: one that
// its owner gave up is adopted, whoever was to do that (L), and one that was adopted
// meanwhile is here now. Else it says who has it.
func (r *Router) takeUp(ctx context.Context, row store.Stream) (*plane.Stream, error) {
	if row.Disowned() && r.cfg.Cluster != nil {
		s, err := r.cfg.Actors.Adopt(ctx, row.ID)
		if err == nil {
			r.adopted(ctx, s)
			return s, nil
		}
		r.log.LogAttrs(ctx, slog.LevelDebug, "could not adopt a stream", slog.String("streamId", row.ID), slog.Any("error", err))
		if member := r.pass(ctx, row.ID, err); member != "" {
			return nil, &heldBy{member, row.Seq}
		}
	}
	if s, ok := r.cfg.Actors.Await(ctx, row.ID); ok {
		return s, nil
	}
	if r.stray(row) { // its text is still being read, or it is about to end: who asks again is told
		return nil, &plane.OffsetError{Kind: plane.ErrMoved, From: row.Seq, Want: row.Seq}
	}
	return nil, r.held(row.Row)
}

// maxPassed is how many members are asked for one request to adopt what this node can't.
const maxPassed = 2

// pass has another member adopt a stream that this node may not, since a call to give it
// up is still on its way, and answers which does: the ring would send each who asks
// here, until the row is swept.
func (r *Router) pass(ctx context.Context, id string, why error) string {
	if !errors.Is(why, plane.ErrMoved) {
		return ""
	}
	takers := r.cfg.Cluster.Takers(id)
	for _, member := range takers[:min(len(takers), maxPassed)] {
		if err := r.AskToAdopt(ctx, member, id); err != nil {
			r.log.LogAttrs(ctx, slog.LevelDebug, "could not pass a stream on", slog.String("streamId", id), slog.Any("error", err))
			continue
		}
		r.places.learn(id, member)
		return member
	}
	return ""
}

// adopted tells of a stream that another node gave up and is live here now: readers of
// it that had to go to the durable plane for so long come back at once.
func (r *Router) adopted(ctx context.Context, s *plane.Stream, more ...slog.Attr) {
	r.Announce(feed.Change{ID: s.ID(), Seq: s.State().Durable, Epoch: s.Epoch(), Status: plane.StatusStreaming})
	r.log.LogAttrs(ctx, slog.LevelInfo, "stream adopted",
		append(more, slog.String("streamId", s.ID()), slog.Int64("epoch", s.Epoch()))...)
}

// stray sees to a row that is this node's by its token, though its stream is not here,
// and reports whether it is one.
func (r *Router) stray(row store.Stream) bool {
	is := r.cfg.Cluster != nil && row.Status == plane.StatusStreaming && plane.NodeOf(row.Token) == r.cfg.Cluster.Self()
	if is {
		r.cfg.Actors.Stray(row.ID)
	}
	return is
}
