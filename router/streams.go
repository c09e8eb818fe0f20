package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
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

// maxList bounds a page of a listing. The store is asked for one more, which
// tells whether there is a next page.
const maxList = store.MaxList - 1

// list answers a page of streams, ordered by id.
func (r *Router) list(c echo.Context) error {
	limit := store.DefaultList
	if given := c.QueryParam("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxList {
			return wire.Detail(wire.ErrBadRequest, "limit is a number from 1 to %d", maxList)
		}
		limit = n
	}
	status := plane.Status(c.QueryParam("status"))
	if status != "" && status != plane.StatusPending && status != plane.StatusStreaming && !status.Ended() {
		return wire.Detail(wire.ErrBadRequest, "status is pending, streaming, complete, cancelled, error or interrupted")
	}
	rows, err := r.rows.List(c.Request().Context(), store.Query{
		Status: status, Prefix: c.QueryParam("prefix"), After: c.QueryParam("after"), Limit: limit + 1,
	})
	if err != nil {
		return err
	}
	var page wire.Listing
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].ID
	}
	page.Streams = make([]wire.Stream, len(rows))
	for i, row := range rows {
		page.Streams[i] = describe(row)
	}
	return c.JSON(http.StatusOK, page)
}

func describe(row store.Stream) wire.Stream {
	s := wire.Stream{
		StreamID: row.ID, Status: row.Status, Seq: row.Seq, Epoch: row.Epoch, Error: row.Error,
		Producer: row.Producer, Meta: row.Meta, CreatedAt: row.Created, UpdatedAt: row.Updated,
	}
	if row.Status == plane.StatusStreaming {
		s.Host = plane.NodeOf(row.Token)
	}
	if !row.Ended.IsZero() {
		s.EndedAt = &row.Ended
	}
	return s
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
