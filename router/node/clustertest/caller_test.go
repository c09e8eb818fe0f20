package clustertest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/router/client"
)

// caller is somebody outside of the cluster, behind a load balancer: it speaks to one
// node for as long as that can be reached, and then to another.
type caller struct {
	w      *world
	client *client.Client
	http   *http.Transport

	addrs []string

	mu sync.Mutex // guards below
	at int        // whom it speaks to
}

const (
	dialTime = 500 * time.Millisecond
	callTime = 5 * time.Second
)

// caller makes one that speaks to the members from the given one on; alone, to no
// other.
func (w *world) caller(at int, alone bool, lost func(id string, why error)) *caller {
	c := &caller{w: w, at: at}
	for i, m := range w.members {
		switch {
		case !alone:
			c.addrs = append(c.addrs, m.httpAddr())
		case i == at:
			c.at, c.addrs = 0, []string{m.httpAddr()}
		}
	}
	c.http = &http.Transport{DialContext: c.dial, DisableCompression: true}
	var err error
	c.client, err = client.New(client.Config{
		Server: "http://localhost:8080", HTTP: &http.Client{Transport: c.http}, Timeout: callTime, Silence: time.Second + 3*w.ping,
		Lost: func(id string, why error) {
			if errors.Is(why, client.ErrUnreached) || why.Error() == "the server is silent" {
				c.turn()
			}
			if lost != nil {
				lost(id, why)
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (c *caller) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	for tries := 0; ; tries++ {
		c.mu.Lock()
		addr := c.addrs[c.at%len(c.addrs)]
		c.mu.Unlock()
		dialing, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := c.w.outside.Dial(dialing, network, addr)
		cancel()
		if err == nil || tries == len(c.addrs)-1 || ctx.Err() != nil {
			return conn, err
		}
		c.turn()
	}
}

// turn goes on to the next member.
func (c *caller) turn() {
	c.mu.Lock()
	c.at++
	c.mu.Unlock()
	c.http.CloseIdleConnections()
}

// ready is why a member says that it is not; "" if it is.
func (c *caller) ready() string {
	req, err := http.NewRequestWithContext(c.w.ctx, http.MethodGet, "http://localhost:8080/readyz", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	why, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode == http.StatusOK:
		return ""
	}
	return string(why)
}

func (c *caller) close() { c.http.CloseIdleConnections() }
