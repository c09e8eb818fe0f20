package router

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
)

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
