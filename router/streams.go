package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/feed"
)

// maxBody bounds the bodies of all requests but append and pump, in bytes.
const maxBody = 64 << 10

// open claims a stream for a producer.
func (r *Router) open(c echo.Context) error {
	var body wire.Open
	if err := r.decode(c, &body); err != nil {
		return err
	}
	ctx := c.Request().Context()
	claim := plane.Claim{ID: streamID(c), Producer: body.Producer, Meta: body.Meta}
	by := plane.Attempt{Instance: body.Instance, Count: body.Attempt}
	if body.Resume {
		resumed, err := r.resume(ctx, claim, by)
		if !errors.Is(err, plane.ErrNotFound) {
			return answer(c, http.StatusOK, resumed, err)
		}
	}
	s, err := r.openStream(ctx, claim)
	if body.Resume && errors.Is(err, plane.ErrOpenHere) { // another resume was faster
		resumed, err := r.resume(ctx, claim, by)
		return answer(c, http.StatusOK, resumed, err)
	}
	switch {
	case err != nil && body.Resume:
		return err
	case err != nil:
		return occupied(err)
	}
	s.BegunBy(by)
	return c.JSON(http.StatusCreated, opened(s, s.ProducerEpoch()))
}

// openStream makes a stream live here.
func (r *Router) openStream(ctx context.Context, claim plane.Claim) (*plane.Stream, error) {
	s, err := r.cfg.Actors.Open(ctx, claim)
	switch {
	case err == nil:
	case errors.Is(err, plane.ErrOpenHere) && r.hasEnded(claim.ID):
		return nil, wire.Detail(plane.ErrExists, "the stream exists already, and has ended; take another id")
	default:
		return nil, notLive(err)
	}
	r.Announce(feed.Change{ID: claim.ID, Epoch: s.Epoch(), Status: plane.StatusStreaming})
	r.log.LogAttrs(ctx, slog.LevelInfo, "stream opened",
		slog.String("streamId", claim.ID), slog.Int64("epoch", s.Epoch()))
	return s, nil
}

// notLive is why a stream was not opened or adopted here. What is the store's failure,
// and no answer, may be tried again.
func notLive(err error) error {
	for _, answer := range []error{plane.ErrOpenHere, plane.ErrMoved, plane.ErrDraining, plane.ErrFull} {
		if errors.Is(err, answer) {
			return err
		}
	}
	if plane.Refused(err) {
		return err
	}
	return unavailable(err)
}

// hasEnded reports whether a stream lingers here that reached the store whole.
func (r *Router) hasEnded(id string) bool {
	s, ok := r.cfg.Actors.Stream(id)
	if !ok {
		return false
	}
	st := s.State()
	return st.Status.Ended() && st.Durable == st.Seq && st.Seq > 0
}

// occupied is why an open that resumes nothing was refused, and what to do where the
// stream lives.
func occupied(err error) error {
	if errors.Is(err, plane.ErrOpenHere) || errors.Is(err, plane.ErrHeld) {
		return wire.Detail(err, "the stream is live already; resume it, or take another id")
	}
	return err
}

// opened answers who is the stream's producer as as, or nobody.
func opened(s *plane.Stream, as plane.ProducerEpoch) wire.Opened {
	st := s.State()
	o := wire.Opened{StreamID: s.ID(), Seq: st.Received, DurableSeq: st.Durable, Epoch: s.Epoch(), Status: st.Status, Error: st.Error}
	if as != (plane.ProducerEpoch{}) {
		o.ProducerEpoch = as.String()
	}
	return o
}

// live returns the stream that is live or lingering here, or why there is none.
func (r *Router) live(c echo.Context) (*plane.Stream, error) {
	id := streamID(c)
	if s, ok := r.cfg.Actors.Await(c.Request().Context(), id); ok {
		return s, nil
	}
	row, err := r.rows.Get(c.Request().Context(), id)
	switch {
	case err != nil:
		return nil, err
	case row.Status.Ended():
		return nil, wire.Detail(plane.ErrClosed, "the stream has ended: %s", row.Status)
	case row.Status == plane.StatusStreaming:
		return r.takeUp(c.Request().Context(), row)
	default:
		return nil, wire.Detail(plane.ErrNotFound, "the stream has not been opened yet")
	}
}

// flush answers when everything appended so far is durable.
func (r *Router) flush(c echo.Context) error {
	by, err := producing(c)
	if err != nil {
		return err
	}
	s, err := r.live(c)
	if errors.Is(err, plane.ErrClosed) { // it has ended, and is durable as far as it is kept
		row, err := r.rows.Get(c.Request().Context(), streamID(c))
		return answer(c, http.StatusOK, wire.Ack{Seq: row.Seq, DurableSeq: row.Seq}, err)
	}
	if err != nil {
		return err
	}
	if _, err := s.FlushAs(c.Request().Context(), by.as); err != nil {
		return err
	}
	return acknowledged(c, s.State())
}

// keepAlive says that a producer which has nothing to say for now is still there.
func (r *Router) keepAlive(c echo.Context) error {
	by, err := producing(c)
	if err != nil {
		return err
	}
	s, err := r.live(c)
	if err == nil {
		err = s.KeepAlive(by.as)
	}
	if err != nil {
		return err
	}
	return acknowledged(c, s.State())
}

// close seals a stream complete, or cancelled if it was asked to stop.
func (r *Router) close(c echo.Context) error {
	var body wire.Close
	if err := r.decode(c, &body); err != nil {
		return err
	}
	switch body.Status {
	case "", plane.StatusComplete:
		return r.seal(c, (*plane.Stream).CloseAs)
	case plane.StatusInterrupted:
		return r.seal(c, (*plane.Stream).InterruptAs)
	default:
		return wire.Detail(wire.ErrBadRequest, "status is complete or interrupted")
	}
}

// fail seals a stream with an error.
func (r *Router) fail(c echo.Context) error {
	var body wire.Fail
	if err := r.decode(c, &body); err != nil {
		return err
	}
	message := store.Sound(body.Error) // for the readers, too, and not for the row alone
	return r.seal(c, func(s *plane.Stream, ctx context.Context, as plane.ProducerEpoch) (plane.Ending, error) {
		return s.FailAs(ctx, as, message)
	})
}

// seal ends a stream. A repeat answers what the first one did, also when the
// stream is not in memory any more.
func (r *Router) seal(c echo.Context, end func(*plane.Stream, context.Context, plane.ProducerEpoch) (plane.Ending, error)) error {
	by, err := producing(c)
	if err != nil {
		return err
	}
	s, err := r.live(c)
	if errors.Is(err, plane.ErrClosed) {
		row, err := r.rows.Get(c.Request().Context(), streamID(c))
		return answer(c, http.StatusOK, wire.Sealed{Status: row.Status, Seq: row.Seq, DurableSeq: row.Seq}, err)
	}
	if err != nil {
		return err
	}
	ending, err := end(s, c.Request().Context(), by.as)
	return answer(c, http.StatusOK, wire.Sealed{Status: ending.Status, Seq: ending.Seq, DurableSeq: ending.Seq}, err)
}

// decode reads a small optional JSON body. A member that the call does not know is
// refused: one that was misspelt would be taken for its default.
func (r *Router) decode(c echo.Context, into any) error { return r.decodeUpTo(c, maxBody, into) }

// decodeUpTo is decode of a body of at most limit bytes.
func (r *Router) decodeUpTo(c echo.Context, limit int64, into any) error {
	body, err := r.body(c, limit)
	if err != nil || len(body) == 0 {
		return err
	}
	if !utf8.Valid(body) {
		return wire.Detail(wire.ErrBadRequest, "the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if err == nil && len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		err = errors.New("more follows it")
	}
	if err != nil {
		return wire.Detail(wire.ErrBadRequest, "the body is not the JSON that this call takes: %v", err)
	}
	return nil
}

// answer writes v, unless err.
func answer(c echo.Context, status int, v any, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(status, v)
}
