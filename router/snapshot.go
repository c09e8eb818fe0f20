package router

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
)

// snapshot answers a stream with its text: what is produced where it is live,
// else what is durable.
func (r *Router) snapshot(c echo.Context) error {
	defer r.whole.Add(-1)
	if int(r.whole.Add(1)) > r.limits.Snapshots {
		return wire.Detail(wire.ErrUnavailable, "the node answers as many snapshots as it may; read the stream as events")
	}
	ctx, id := c.Request().Context(), streamID(c)
	row, err := r.rows.Get(ctx, id)
	if err != nil {
		return err
	}
	if resp, ok := r.snapshotOf(c, row); ok {
		return r.passOn(c, resp)
	}
	snap := wire.Snapshot{Stream: describe(row), DurableSeq: row.Seq}
	if s, ok := r.cfg.Actors.Stream(id); ok {
		text, from, st := s.Snapshot()
		below, page, err := r.durableText(ctx, id, from)
		if err != nil {
			return err
		}
		if from == 0 || page.End() == from && page.Epoch == s.Epoch() {
			snap.Text, snap.Seq, snap.DurableSeq, snap.Status, snap.Error = below+text, st.Seq, st.Durable, st.Status, st.Error
			return c.JSON(http.StatusOK, snap)
		}
	}
	text, page, err := r.durableText(ctx, id, plane.MaxOffset)
	if err != nil {
		return err
	}
	snap.Text, snap.Seq, snap.DurableSeq, snap.Status, snap.Error = text, page.Seq, page.Seq, page.Status, page.Error
	return c.JSON(http.StatusOK, snap)
}

// snapshotOf asks the member that has a stream for its snapshot. Where that can't
// be had in time, what is durable is.
func (r *Router) snapshotOf(c echo.Context, row store.Stream) (*http.Response, bool) {
	member, ok := r.host(row.Row)
	if !ok || isFromNode(c) {
		return nil, false
	}
	if _, here := r.cfg.Actors.Stream(row.ID); here {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(c.Request().Context()) // of the answer's body, too
	req, err := forwarded(ctx, c.Request(), nil, 0)
	if err != nil {
		cancel(err)
		return nil, false
	}
	req.Header.Set(echo.HeaderAccept, typeJSON)
	late := time.AfterFunc(whereTime, func() { cancel(context.DeadlineExceeded) })
	resp, err := r.send(ctx, row.ID, member, req)
	late.Stop()
	switch {
	case err != nil:
		cancel(err)
		return nil, false
	case resp.StatusCode != http.StatusOK:
		_ = resp.Body.Close()
		return nil, false
	}
	return resp, true
}

// durableText returns a stream's durable text up to offset to, or its end, and
// the last page that was read for it.
func (r *Router) durableText(ctx context.Context, id string, to int64) (string, store.Page, error) {
	var text strings.Builder
	var page store.Page
	for at := int64(0); at < to; at = page.End() {
		var err error
		if page, err = r.rows.Text(ctx, id, at, min(store.MaxPage, to-at)); err != nil {
			return "", page, err
		}
		text.WriteString(page.Text)
		if page.End() >= page.Seq {
			break
		}
	}
	return text.String(), page, nil
}
