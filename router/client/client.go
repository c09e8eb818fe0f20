// Package client speaks a node's HTTP API from Go: it opens and feeds streams,
// and follows them through broken connections.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rillkeep.dev/rillkeep/router/wire"
)

// Config says which server to speak to, and how.
type Config struct {
	Server string       // base URL, e.g. http://127.0.0.1:8080; required
	Token  string       // sent as a bearer token; "" sends none
	HTTP   *http.Client // nil means one of its own; must not have a Timeout, which would cut streams

	// Timeout bounds a call that is not a stream, 30 s if 0.
	Timeout time.Duration
}

// Client is safe for concurrent use. Errors that the server answers are
// *wire.Error: errors.Is finds package plane's and package wire's in them.
type Client struct {
	base    *url.URL
	token   string
	http    *http.Client
	timeout time.Duration
}

// maxAnswer bounds what is read of an answer that is not a stream, in bytes.
const maxAnswer = 256 << 20

// New returns a client. It makes no connection yet.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.Server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("server must be a URL such as http://127.0.0.1:8080, not %q", cfg.Server)
	}
	c := &Client{base: base, token: cfg.Token, http: cfg.HTTP, timeout: cfg.Timeout}
	if c.http == nil {
		c.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	return c, nil
}

// Open claims a stream, or with resume answers where one that is there goes on.
func (c *Client) Open(ctx context.Context, id string, body wire.Open) (opened wire.Opened, err error) {
	err = c.post(ctx, c.stream(id), body, &opened)
	return opened, err
}

// Append adds delta at offset from; text that is there already is absorbed.
func (c *Client) Append(ctx context.Context, id string, from int64, delta string) (ack wire.Ack, err error) {
	u := c.stream(id, "append")
	u.RawQuery = url.Values{"from": {strconv.FormatInt(from, 10)}}.Encode()
	err = c.post(ctx, u, json.RawMessage(deltaLine(delta)), &ack)
	return ack, err
}

// Flush returns once everything appended so far is durable.
func (c *Client) Flush(ctx context.Context, id string) (ack wire.Ack, err error) {
	err = c.post(ctx, c.stream(id, "flush"), nil, &ack)
	return ack, err
}

// Close seals a stream; the zero body seals it complete.
func (c *Client) Close(ctx context.Context, id string, body wire.Close) (sealed wire.Sealed, err error) {
	err = c.post(ctx, c.stream(id, "close"), body, &sealed)
	return sealed, err
}

// Fail seals a stream with an error.
func (c *Client) Fail(ctx context.Context, id, message string) (sealed wire.Sealed, err error) {
	err = c.post(ctx, c.stream(id, "fail"), wire.Fail{Error: message}, &sealed)
	return sealed, err
}

// Cancel asks a stream to stop.
func (c *Client) Cancel(ctx context.Context, id string) (sealed wire.Sealed, err error) {
	err = c.post(ctx, c.stream(id, "cancel"), nil, &sealed)
	return sealed, err
}

// Snapshot returns a stream with its text.
func (c *Client) Snapshot(ctx context.Context, id string) (snap wire.Snapshot, err error) {
	err = c.get(ctx, c.stream(id), &snap)
	return snap, err
}

// Query selects streams; see the API's listing. The zero Query is the first
// page of all.
type Query struct {
	Status, Prefix, After string
	Limit                 int
}

// List returns a page of streams, ordered by id.
func (c *Client) List(ctx context.Context, q Query) (page wire.Listing, err error) {
	u := c.base.JoinPath("v1", "streams")
	values := url.Values{}
	for name, v := range map[string]string{"status": q.Status, "prefix": q.Prefix, "after": q.After} {
		if v != "" {
			values.Set(name, v)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	u.RawQuery = values.Encode()
	err = c.get(ctx, u, &page)
	return page, err
}

// stream returns the URL of a stream, or of what can be done to it. The id is
// one path segment, whatever is in it.
func (c *Client) stream(id string, action ...string) *url.URL {
	u := *c.base
	prefix := strings.TrimSuffix(u.Path, "/") + "/v1/streams/"
	suffix := ""
	if len(action) > 0 {
		suffix = "/" + action[0]
	}
	u.Path = prefix + id + suffix
	u.RawPath = prefix + escape(id) + suffix
	return &u
}

// escape is url.PathEscape that also keeps "." and ".." from being a path's own.
func escape(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

func (c *Client) post(ctx context.Context, u *url.URL, body, into any) error {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	return c.call(ctx, http.MethodPost, u, payload, into)
}

func (c *Client) get(ctx context.Context, u *url.URL, into any) error {
	return c.call(ctx, http.MethodGet, u, nil, into)
}

func (c *Client) call(ctx context.Context, method string, u *url.URL, payload []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, method, u, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return noSecrets(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("read answer: %w", noSecrets(err))
	case resp.StatusCode/100 != 2:
		return wire.Decode(resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method string, u *url.URL, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// noSecrets drops the URL from a transport's error: somebody may have put a
// token into the server's.
func noSecrets(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return fmt.Errorf("reach server: %w", ue.Err)
	}
	return err
}
