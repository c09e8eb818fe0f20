// Package client speaks a node's HTTP API from Go: it opens and feeds streams,
// and follows them through broken connections.
//
// Offsets and lengths are UTF-16 code units. Deltas are UTF-8, or WTF-8 where
// they hold half of a surrogate pair.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/router/wire"
)

// Config says which server to speak to, and how.
type Config struct {
	Server string       // base URL, e.g. http://127.0.0.1:8080; required
	Others []string     // base URLs of more nodes of its cluster: each is as good, and one that is lost leads to the next
	Token  string       // sent as a bearer token; "" sends none
	HTTP   *http.Client // nil means one of its own; must not have a Timeout, which would cut streams

	// Timeout bounds each call but Follow and Pump; 0 means a minute, more than
	// a node takes to give its store up.
	Timeout time.Duration

	// Silence is how long a reader's connection may bring nothing, not even a
	// ping, until it is given up; 0 means 45 s, three pings of a node.
	Silence time.Duration

	// Lost, if set, is told each time why a connection of Follow's was lost,
	// before it is replaced. It is called on the goroutine that follows.
	Lost func(id string, why error)
}

// ErrUnreached says that there was no answer, and gives the reason.
var ErrUnreached = errors.New("server is not reached")

// Client is safe for concurrent use. An error that the server answered is a
// *wire.Error, in which errors.Is finds what it was on the node: an error of
// package plane's or package wire's. After any other the call may have been done
// or not. All calls but an Open may be repeated.
type Client struct {
	cfg   Config
	bases []*url.URL
	turn  atomic.Uint32 // of bases, modulo
	http  *http.Client
}

// New returns a client. It makes no connection yet.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, http: cfg.HTTP}
	for _, server := range append([]string{cfg.Server}, cfg.Others...) {
		base, err := url.Parse(server)
		if err != nil || base.Host == "" || base.RawQuery != "" || base.Scheme != "http" && base.Scheme != "https" {
			return nil, errors.New("the server is given by its base URL, such as http://127.0.0.1:8080") // which may hold a password
		}
		c.bases = append(c.bases, base)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if c.cfg.Timeout == 0 {
		c.cfg.Timeout = time.Minute
	}
	if c.cfg.Silence == 0 {
		c.cfg.Silence = 45 * time.Second
	}
	return c, nil
}

// base is the server to ask now.
func (c *Client) base() *url.URL { return c.bases[int(c.turn.Load())%len(c.bases)] }

// pass makes the next server the one to ask, if that is still the one that was
// asked in vain.
func (c *Client) pass(asked *url.URL) {
	turn := c.turn.Load()
	if c.bases[int(turn)%len(c.bases)].Host == asked.Host {
		c.turn.CompareAndSwap(turn, turn+1)
	}
}

// Open claims a stream. One that is there is plane.ErrExists, plane.ErrOpenHere
// or plane.ErrHeld, unless body asks to resume: then the answer is where its
// producer goes on, or how it ended.
func (c *Client) Open(ctx context.Context, id string, body wire.Open) (opened wire.Opened, err error) {
	err = c.follow(ctx, func() error { return c.post(ctx, c.stream(id), body, &opened) })
	return opened, err
}

// Append adds delta at offset from. Text that is there already is absorbed; a
// plane.ErrGap or plane.ErrConflict says in wire.Error's Want where to go on.
// plane.ErrClosed, plane.ErrCancelled and plane.ErrFenced say that the stream
// takes no more, and plane.ErrMoved that another node soon takes it, from Want
// on. A delta of about a megabyte is wire.ErrTooLarge: see Pump.
func (c *Client) Append(ctx context.Context, id string, from int64, delta string) (ack wire.Ack, err error) {
	u := c.stream(id, "append")
	u.RawQuery = at{from: from}.query()
	err = c.post(ctx, u, json.RawMessage(deltaLine(delta)), &ack)
	return ack, err
}

// Flush returns once everything appended before it is durable, or with
// plane.ErrShort.
func (c *Client) Flush(ctx context.Context, id string) (ack wire.Ack, err error) {
	err = c.follow(ctx, func() error { return c.post(ctx, c.stream(id, "flush"), nil, &ack) })
	return ack, err
}

// Close seals a stream; the zero body seals it complete, or cancelled if it was
// asked to stop. Of all that seal a stream the first counts: later ones are
// answered how it ended.
func (c *Client) Close(ctx context.Context, id string, body wire.Close) (sealed wire.Sealed, err error) {
	err = c.follow(ctx, func() error { return c.post(ctx, c.stream(id, "close"), body, &sealed) })
	return sealed, err
}

// Fail is Close with an error, whose message all readers see.
func (c *Client) Fail(ctx context.Context, id, message string) (sealed wire.Sealed, err error) {
	err = c.follow(ctx, func() error { return c.post(ctx, c.stream(id, "fail"), wire.Fail{Error: message}, &sealed) })
	return sealed, err
}

// Cancel asks a stream to stop and does not wait until it has.
func (c *Client) Cancel(ctx context.Context, id string) (sealed wire.Sealed, err error) {
	err = c.post(ctx, c.stream(id, "cancel"), nil, &sealed)
	return sealed, err
}

// Snapshot returns a stream with its text as it is now.
func (c *Client) Snapshot(ctx context.Context, id string) (snap wire.Snapshot, err error) {
	err = c.get(ctx, c.stream(id), &snap)
	return snap, err
}

// Query selects streams. The zero Query is the first page of all.
type Query struct {
	Status string // only those of this plane.Status; "" means any
	Prefix string // only those whose id begins so
	After  string // only those whose id is greater: the Next of the page before
	Limit  int    // streams in a page, at most 999; 0 means 100
}

// List returns a page of streams, ordered by id.
func (c *Client) List(ctx context.Context, q Query) (page wire.Listing, err error) {
	values := url.Values{}
	for name, v := range map[string]string{"status": q.Status, "prefix": q.Prefix, "after": q.After} {
		if v != "" {
			values.Set(name, v)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	u := c.base().JoinPath("v1", "streams")
	u.RawQuery = values.Encode()
	err = c.get(ctx, u, &page)
	return page, err
}

// Cluster returns what the node knows of the nodes that it is one of. A node that
// is alone answers wire.ErrUnsupported.
func (c *Client) Cluster(ctx context.Context) (cluster wire.Cluster, err error) {
	err = c.get(ctx, c.base().JoinPath("v1", "cluster"), &cluster)
	return cluster, err
}
