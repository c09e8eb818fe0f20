package router

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/router/wire"
)

// maxCounts bounds what a member says of what it holds, in bytes.
const maxCounts = 4 << 10

// cluster answers who is in it.
func (r *Router) cluster(c echo.Context) error {
	if r.cfg.Cluster == nil {
		return wire.Detail(wire.ErrUnsupported, "the node runs by itself; start it with a cluster secret for a cluster")
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), whereTime)
	defer cancel()
	said := r.cfg.Cluster.Describe()
	var asked sync.WaitGroup
	for i := range said.Members {
		asked.Go(func() { said.Members[i].NodeCounts = r.countsOf(ctx, said.Members[i].Name) })
	}
	asked.Wait()
	return c.JSON(http.StatusOK, said)
}

// countsOf asks a member what it holds; nil if it does not say in time.
func (r *Router) countsOf(ctx context.Context, member string) *wire.NodeCounts {
	if member == r.cfg.Cluster.Self() {
		counts := r.counts()
		return &counts
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://peer/v1/node", nil)
	if err != nil {
		return nil
	}
	resp, err := r.do(ctx, member, req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	counts := new(wire.NodeCounts)
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxCounts)).Decode(counts) != nil {
		return nil
	}
	return counts
}

// counts are what this node holds.
func (r *Router) counts() wire.NodeCounts {
	live, lingering := r.cfg.Actors.Counts()
	return wire.NodeCounts{Streams: live, Lingering: lingering}
}

// describeNode answers another node what this one's part of GET /v1/cluster is.
func (r *Router) describeNode(c echo.Context) error { return c.JSON(http.StatusOK, r.counts()) }
