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
	"strings"

	"rillkeep.dev/rillkeep/router/wire"
)

// What is read of an answer that is not a stream, in bytes.
const (
	maxAnswer  = 512 << 20
	maxRefusal = 64 << 10
)

// stream returns the URL of a stream, or of what can be done to it. The id is
// one path segment, whatever is in it.
func (c *Client) stream(id string, action ...string) *url.URL {
	base := c.base()
	u := *base
	tail := strings.Join(append([]string{""}, action...), "/")
	u.Path = strings.TrimSuffix(base.Path, "/") + "/v1/streams/" + id + tail
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/v1/streams/" + escape(id) + tail
	return &u
}

// escape is url.PathEscape that also keeps "." and ".." from being a path's own.
func escape(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

func (c *Client) get(ctx context.Context, u *url.URL, into any) error {
	return c.call(ctx, http.MethodGet, u, nil, into)
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

func (c *Client) call(ctx context.Context, method string, u *url.URL, payload []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.request(ctx, method, u, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refusal(resp.StatusCode, resp.Body)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
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
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	return req, nil
}

// do sends a request. A server that can't be reached, or can't serve now, is not the
// one that is asked next.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		c.pass(req.URL)
		return nil, unreached(err)
	}
	if passes(resp.StatusCode) {
		c.pass(req.URL)
	}
	return resp, nil
}

// refusal is the error that an answer stands for. Where its body breaks off the
// status has to do.
func refusal(status int, body io.Reader) *wire.Error {
	answer, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
	return wire.Decode(status, answer)
}

// unreached is a transport's error without the URL, into which somebody may have
// put a password.
func unreached(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("%w: %w", ErrUnreached, err)
}
