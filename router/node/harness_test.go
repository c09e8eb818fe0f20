package node_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// patience bounds what a test waits for. Nothing that works takes as long, however
// little of the machine is left to it.
const patience = 2 * time.Minute

// running is a node, and what a test needs to speak to it.
type running struct {
	*node.Node
	tb     testing.TB
	cfg    node.Config
	http   *http.Client
	client *client.Client
}

// openNode starts a node on a free port, over an SQLite file of its own unless
// cfg says otherwise. It is closed when the test ends.
func openNode(tb testing.TB, cfg node.Config) *running {
	tb.Helper()
	cfg.Listen = cmp.Or(cfg.Listen, "127.0.0.1:0")
	if cfg.Tables == (mapped.Tables{}) || cfg.Tables.Host != "" {
		cfg.Name = cmp.Or(cfg.Name, "n1")
	}
	if cfg.Data == "" && cfg.Database == "" {
		cfg.Data = tb.TempDir()
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience) // it waits for its database
	defer cancel()
	n, err := node.Open(ctx, cfg)
	if err != nil {
		tb.Fatalf("open node: %v", err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	r := &running{Node: n, tb: tb, cfg: cfg, http: &http.Client{Transport: transport}}
	r.client = r.as("")
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := n.Close(); err != nil {
			tb.Errorf("close node: %v", err)
		}
	})
	return r
}

// onEachStore runs a test on a node with each of the stores.
func onEachStore(t *testing.T, cfg node.Config, test func(t *testing.T, n *running)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, openNode(t, cfg))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		cfg := cfg
		cfg.Database = pgtest.URL(t)
		test(t, openNode(t, cfg))
	})
}

// restart stops a node as a kill would, with no word to its streams, and starts
// it again on its store.
func (r *running) restart() *running {
	r.tb.Helper()
	r.http.CloseIdleConnections()
	if err := r.Close(); err != nil {
		r.tb.Fatalf("close node: %v", err)
	}
	return openNode(r.tb, r.cfg)
}

// sqliteFile is where the node's embedded store is.
func (r *running) sqliteFile() string { return filepath.Join(r.cfg.Data, "rillkeep.db") }

// as returns a client with a token.
func (r *running) as(token string) *client.Client {
	r.tb.Helper()
	c, err := client.New(client.Config{Server: r.URL(), Token: token, HTTP: r.http})
	if err != nil {
		r.tb.Fatal(err)
	}
	return c
}

// open claims a stream.
func (r *running) open(id string) {
	r.tb.Helper()
	if _, err := r.client.Open(r.tb.Context(), id, wire.Open{}); err != nil {
		r.tb.Fatalf("open %q: %v", id, err)
	}
}

// push appends deltas one after the other, each at its own offset from the
// given one on, and returns where the next would start.
func (r *running) push(id string, from int64, deltas ...string) int64 {
	r.tb.Helper()
	for _, delta := range deltas {
		ack, err := r.client.Append(r.tb.Context(), id, from, delta)
		if err != nil {
			r.tb.Fatalf("append to %q at %d: %v", id, from, err)
		}
		from = ack.Seq
	}
	return from
}

func (r *running) flush(id string) {
	r.tb.Helper()
	if _, err := r.client.Flush(r.tb.Context(), id); err != nil {
		r.tb.Fatalf("flush %q: %v", id, err)
	}
}

// seal closes a stream complete.
func (r *running) seal(id string) wire.Sealed {
	r.tb.Helper()
	sealed, err := r.client.Close(r.tb.Context(), id, wire.Close{})
	if err != nil {
		r.tb.Fatalf("close %q: %v", id, err)
	}
	return sealed
}

// whole opens a stream, pushes the deltas and seals it.
func (r *running) whole(id string, deltas ...string) {
	r.tb.Helper()
	r.open(id)
	r.push(id, 0, deltas...)
	r.seal(id)
}

func (r *running) snapshot(id string) wire.Snapshot {
	r.tb.Helper()
	snap, err := r.client.Snapshot(r.tb.Context(), id)
	if err != nil {
		r.tb.Fatalf("snapshot of %q: %v", id, err)
	}
	return snap
}

// pumpText sends a text of any length as plain text.
func (r *running) pumpText(id, text string) {
	r.tb.Helper()
	a := r.do(http.MethodPost, path(id, "pump"), text, "Content-Type", "text/plain")
	if a.status != http.StatusOK || !strings.Contains(a.body, `"done":true`) {
		r.tb.Fatalf("pump to %q: %d %.200s", id, a.status, a.body)
	}
}

// path is the path of a stream, or of what can be done to it.
func path(id string, action ...string) string {
	return strings.Join(append([]string{"/v1/streams", url.PathEscape(id)}, action...), "/")
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// err is the error that the answer says.
func (a answer) err() *wire.Error { return wire.Decode(a.status, []byte(a.body)) }

// do makes one request; header is names and values in turn.
func (r *running) do(method, target, body string, header ...string) answer {
	r.tb.Helper()
	a, err := r.try(r.tb.Context(), method, target, body, header...)
	if err != nil {
		r.tb.Fatalf("%s %s: %v", method, target, err)
	}
	return a
}

func (r *running) try(ctx context.Context, method, target, body string, header ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.URL()+target, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// decode reads an answer's JSON.
func decode[T any](tb testing.TB, a answer) (v T) {
	tb.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		tb.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	return v
}

// wantError fails the test unless the answer is that error.
func wantError(tb testing.TB, what string, a answer, status int, code string) {
	tb.Helper()
	if a.status != status || a.err().Code != code {
		tb.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, code)
	}
}

// await waits until ok, which is asked again and again.
func await(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v for this: %s", patience, what)
		}
	}
}

// metrics are the node's, by name with labels as they are written.
func (r *running) metrics(header ...string) map[string]float64 {
	r.tb.Helper()
	a := r.do(http.MethodGet, "/metrics", "", header...)
	if a.status != http.StatusOK {
		r.tb.Fatalf("metrics: %d %s", a.status, a.body)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(a.body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			values[name] = v
		}
	}
	return values
}

// lines are the lines of a test file, which are one JSON each.
func lines(tb testing.TB, data []byte) []string {
	tb.Helper()
	var all []string
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			all = append(all, string(line))
		}
	}
	return all
}

// ended reports how a snapshot's stream ended, and fails the test unless all
// of its text is durable.
func ended(tb testing.TB, snap wire.Snapshot) plane.Status {
	tb.Helper()
	if !snap.Status.Ended() || snap.DurableSeq != plane.Units(snap.Text) || snap.Seq != snap.DurableSeq {
		tb.Errorf("not a whole sealed stream: %s, seq %d, durable %d, %d units", snap.Status, snap.Seq, snap.DurableSeq, plane.Units(snap.Text))
	}
	return snap.Status
}

// retired reports whether the node holds no stream any more, live or lingering.
func (r *running) retired() bool {
	m := r.metrics()
	return m["rillkeep_streams_open"]+m["rillkeep_streams_lingering"] == 0
}
