package generate

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/router/upstream"
)

// Client calls upstreams. It is safe for concurrent use.
type Client struct {
	cfg       Config
	upstreams map[string]Upstream
	first     Upstream // of format openai
	http      *http.Client
}

// New returns a client for cfg.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg.withDefaults(), upstreams: make(map[string]Upstream)}
	for _, u := range cfg.Upstreams {
		c.upstreams[u.Name] = u
		if c.first.Name == "" && u.Format == upstream.OpenAI {
			c.first = u
		}
	}
	c.http = &http.Client{
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSHandshakeTimeout:    dialTime,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // it would hold back what is to be seen at once
			MaxIdleConnsPerHost:    32,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return c, nil
}

const dialTime = 10 * time.Second

// Close lets go of connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxRedirects bounds redirects within a host.
const maxRedirects = 3

// sameHost lets a redirect be followed within a host, that repeats the request.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// post sends a job's request. A response that is none is an error.
func (c *Client) post(ctx context.Context, job Job) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.to.endpoint(), bytes.NewReader(job.body))
	if err != nil {
		return nil, &transportError{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "rillkeep")
	job.to.authorize(req.Header)
	resp, err := c.http.Do(req)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &transportError{err}
	case resp.StatusCode != http.StatusOK:
		defer func() { _ = resp.Body.Close() }()
		return nil, refusal(resp)
	}
	return resp, nil
}

// maxRefusal bounds how much is read of a refusal.
const maxRefusal = 64 << 10

func refusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		body = nil // the status says enough
	}
	return &StatusError{
		Status: resp.StatusCode, Said: upstream.ParseError(body),
		RetryAfter: retryAfter(resp.Header), final: resp.Header.Get("X-Should-Retry") == "false",
	}
}
