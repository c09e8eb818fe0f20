package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// maxEvent bounds an event between nodes, in bytes: a chunk of plane.MaxChunk, of
// which JSON may make six times as many, and what is around it.
const maxEvent = 8 * plane.MaxChunk

// Attach is the cluster's relay: it answers the frames of a stream that another
// node has, from an offset. One that no live node has is an absent.
func (r *Router) Attach(ctx context.Context, id string, from, epoch int64) (*Attached, error) {
	member := r.place(id)
	if member == "" || member == r.cfg.Cluster.Self() {
		row, err := r.rows.Get(ctx, id)
		if err != nil && !errors.Is(err, plane.ErrNotFound) {
			return nil, err
		}
		var ok bool
		if member, ok = r.host(row); err != nil || !ok {
			return nil, errNotHosted
		}
		r.places.learn(id, member)
	}
	resp, _, err := r.ask(ctx, id, member, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, peerURL(id, "?plane=live"), nil)
		if err != nil {
			return nil, fmt.Errorf("attach: %w", err)
		}
		at := strconv.FormatInt(from, 10)
		if epoch > 1 {
			at += "@" + strconv.FormatInt(epoch, 10)
		}
		req.Header.Set("Last-Event-ID", at)
		return req, nil
	})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, refusal(resp)
	}
	return &Attached{body: resp.Body, events: sse.NewReader(resp.Body, sse.Options{Limit: maxEvent})}, nil
}

var errNotHosted = errors.New("no node has the stream")

// Attached are the frames of a stream that another node has. It is for one
// goroutine, but for Close.
type Attached struct {
	body   io.ReadCloser
	events *sse.Reader
}

// Next waits for the next frame. io.EOF if the connection ended.
func (a *Attached) Next() (plane.Frame, error) {
	e, err := a.events.Next()
	if err != nil {
		return plane.Frame{}, err
	}
	f, err := plane.ParseFrame(e.Data)
	if err != nil {
		return plane.Frame{}, fmt.Errorf("frame of another node: %w", err)
	}
	if _, epoch, ok := plane.ParseResume(e.ID); ok {
		f.Epoch = epoch // the open's id, or that of the text since
	}
	return f, nil
}

// Close ends the attach; a Next under way ends, too.
func (a *Attached) Close() error { return a.body.Close() }
