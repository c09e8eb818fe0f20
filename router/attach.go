package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/sse"
)

// maxEvent bounds an event between nodes, in bytes: a chunk of plane.MaxChunk, of
// which JSON may make six times as many, and what is around it.
const maxEvent = 8 * plane.MaxChunk

// epochHeader of an attach's answer is the stream's epoch.
const epochHeader = peer.Prefix + "Epoch"

// Attach is an actor.Relay's: it answers the frames of a stream that another node
// has, from an offset, and its epoch; nil if no live node has it.
func (r *Router) Attach(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
	member := r.place(id)
	if member == "" || member == r.cfg.Cluster.Self() {
		row, err := r.rows.Get(ctx, id)
		if err != nil && !errors.Is(err, plane.ErrNotFound) {
			return nil, 0, err
		}
		var ok bool
		if member, ok = r.host(row.Row); err != nil || !ok {
			return nil, 0, nil
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
		return nil, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, 0, refusal(resp)
	}
	at, err := strconv.ParseInt(resp.Header.Get(epochHeader), 10, 64)
	if err != nil || at < 0 {
		at = 0 // it is not hosted there, and the frame says so
	}
	return &relayed{body: resp.Body, events: sse.NewReader(resp.Body, sse.Options{Limit: maxEvent})}, at, nil
}

// relayed are the frames of a stream that another node has. They end with the
// context of their attach.
type relayed struct {
	body   io.ReadCloser
	events *sse.Reader
}

// Next implements actor.Source.
func (a *relayed) Next(context.Context) (plane.Frame, error) {
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

// Close implements actor.Source.
func (a *relayed) Close() error { return a.body.Close() }
