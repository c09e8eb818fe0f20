package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
)

// reader is a stock EventSource behind a load balancer: it knows the id of the last
// event, comes back when its connection ends, and gives up on any answer but 200.
type reader struct {
	c       *cluster
	text    *text
	attempt int    // which of the nodes it is led to
	only    *node  // it comes back to, if to no other
	front   string // where it is led to a node by, if not by itself
	waits   bool   // as long as it is told to, before it comes back
	pos     int64  // it has the text up to here

	last     string        // event id
	retry    time.Duration // until it comes back
	at       atomic.Int64  // pos, for others
	since    time.Time     // of its first open
	opened   atomic.Bool   // it has had an open
	returned int           // so often it came back
	rewound  int           // so often it was taken back

	end struct {
		status plane.Status
		seq    int64
	}
}

// frame is what a reader's frame may hold.
type frame struct {
	Type, Text, StreamID string
	From, Seq            int64
	Status               plane.Status
}

// run reads to the end of the stream.
func (r *reader) run(ctx context.Context) error {
	r.retry = time.Second
	for r.end.status == "" {
		err := r.connect(ctx)
		if err != nil {
			return fmt.Errorf("reader at %d of %s: %w", r.pos, r.text.id, err)
		}
		if r.end.status != "" {
			return nil
		}
		r.attempt++
		r.returned++
		pause := r.retry
		if !r.waits {
			pause /= 4 // a second would be long for a test
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("reader at %d of %s: %w", r.pos, r.text.id, ctx.Err())
		}
	}
	return nil
}

// base is where it connects to next.
func (r *reader) base() string {
	if r.front != "" {
		return r.front
	}
	return r.through().url()
}

func (r *reader) through() *node {
	if r.only != nil {
		return r.only
	}
	return r.c.through(r.attempt)
}

// connect reads one connection to its end. A connection that breaks is no error.
func (r *reader) connect(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base()+"/v1/streams/"+url.PathEscape(r.text.id)+"?from="+strconv.FormatInt(r.pos, 10), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	resp, err := r.c.reads.Do(req)
	if err != nil {
		return nil // nobody listens there now
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, said)
	}
	var data, id string
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case line == "\n" && data != "":
			if id != "" {
				r.last = id
			}
			if err := r.take([]byte(data)); err != nil || r.end.status != "" {
				return err
			}
			data, id = "", ""
		case field == "data":
			data += value
		case field == "id":
			id = value
		case field == "retry":
			ms, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			r.retry = time.Duration(ms) * time.Millisecond
		case line != "\n" && !strings.HasPrefix(line, ":"):
			return fmt.Errorf("line %q is no event's", line)
		}
	}
}

// take takes one frame, whose place must be where the reader is.
func (r *reader) take(data []byte) error {
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("%w: %q", err, data)
	}
	switch f.Type {
	case "open":
		if f.From > r.pos || f.StreamID != r.text.id {
			return fmt.Errorf("opened by %s", data)
		}
		if f.From < r.pos && r.opened.Load() {
			r.rewound++
		}
		r.pos = f.From
		if !r.opened.Load() {
			r.since = time.Now()
		}
		r.opened.Store(true)
	case "chunk":
		end, err := r.text.check(f.From, f.Text)
		switch {
		case err != nil:
			return err
		case f.From != r.pos, f.Seq != end:
			return fmt.Errorf("%s is at %d", data, r.pos)
		}
		r.pos = end
	case "durable":
		if f.Seq > r.text.sent.Load() {
			return fmt.Errorf("%s before it was said", data)
		}
	case "end":
		if f.Seq != r.pos {
			return fmt.Errorf("%s is at %d", data, r.pos)
		}
		r.end.status, r.end.seq = f.Status, f.Seq
	default:
		return fmt.Errorf("is sent %s", data)
	}
	r.at.Store(r.pos)
	return nil
}

// follow is run by the Go client, which keeps to one node while that is there.
func (r *reader) follow(ctx context.Context) error {
	for r.end.status == "" {
		once, leave := context.WithCancel(ctx)
		cl, err := client.New(client.Config{
			Server: r.through().url(), HTTP: r.c.reads,
			Lost: func(_ string, why error) {
				if errors.Is(why, client.ErrUnreached) {
					leave() // as one does whose node was taken out of service
				}
			},
		})
		if err != nil {
			leave()
			return err
		}
		for f, err := range cl.Follow(once, r.text.id, r.pos, "") {
			if err != nil && once.Err() != nil {
				break
			}
			if err == nil {
				err = r.take(plane.AppendJSON(nil, f))
			}
			if err != nil {
				leave()
				return fmt.Errorf("client's reader at %d of %s: %w", r.pos, r.text.id, err)
			}
		}
		leave()
		if ctx.Err() != nil {
			return fmt.Errorf("client's reader at %d of %s: %w", r.pos, r.text.id, ctx.Err())
		}
		r.attempt++
		r.returned++
	}
	r.returned--
	return nil
}
