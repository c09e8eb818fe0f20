package node_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestAHealthyNodeIsReady(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		if a := n.do(http.MethodGet, "/healthz", ""); a.status != 200 || a.body != `{"status":"ok"}`+"\n" {
			t.Errorf("healthz: %d %s", a.status, a.body)
		}
		if a := n.do(http.MethodGet, "/readyz", ""); a.status != 200 || a.body != `{"status":"ready"}`+"\n" {
			t.Errorf("readyz: %d %s", a.status, a.body)
		}
	})
}

func TestANodeWithoutItsStoreIsNotReadyAndHealsByItself(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	n := openNode(t, node.Config{Database: database, Policy: impatient()})
	n.open("m1")
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(format string, args ...any) {
		t.Helper()
		if _, err := db.Exec(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER DATABASE %s WITH ALLOW_CONNECTIONS false", name)
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", name)
	a := n.do(http.MethodGet, "/readyz", "")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "store") ||
		strings.Contains(a.body, name) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := n.do(http.MethodGet, "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
	n.push("m1", 0, "live all the same")
	if a := n.do(http.MethodPost, path("new"), ""); a.status != 500 && a.status != 503 || strings.Contains(a.body, name) {
		t.Errorf("open: %d %s", a.status, a.body)
	}
	exec("ALTER DATABASE %s WITH ALLOW_CONNECTIONS true", name)
	await(t, "it is ready again", func() bool { return n.do(http.MethodGet, "/readyz", "").status == 200 })
	await(t, "the text is durable", func() bool {
		snap, err := n.client.Snapshot(t.Context(), "m1")
		return err == nil && snap.DurableSeq == 17
	})
}

func TestMetricsCountWhatHappens(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: patient(), Linger: time.Hour})
	n.open("m1")
	n.open("m2")
	n.open("m3")
	r := n.reads("m1", "")
	gone := n.reads("m1", "plane=durable")
	n.push("m1", 0, "0123456789\x00")
	if err := r.until(11); err != nil {
		t.Fatal(err)
	}
	n.flush("m1")
	if _, err := r.next(); err != nil { // durable
		t.Fatal(err)
	}
	_ = gone.body.Close()
	await(t, "one reader is gone", func() bool { return n.metrics()["rillkeep_readers"] == 1 })
	n.push("m2", 0, "abc")
	live := n.metrics()
	n.seal("m1")
	if err := r.rest(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.client.Fail(t.Context(), "m2", "x"); err != nil {
		t.Fatal(err)
	}
	await(t, "nobody reads", func() bool { return n.metrics()["rillkeep_readers"] == 0 })
	_ = n.do(http.MethodGet, path("none"), "")
	after := n.metrics()
	for name, want := range map[string][2]float64{
		"rillkeep_streams_open":                                                     {3, 1},
		"rillkeep_streams_lingering":                                                {0, 2},
		"rillkeep_readers":                                                          {1, 0},
		`rillkeep_readers_closed_total{reason="gone"}`:                              {1, 1},
		`rillkeep_readers_closed_total{reason="end"}`:                               {0, 1},
		`rillkeep_readers_closed_total{reason="stall"}`:                             {0, 0},
		`rillkeep_readers_closed_total{reason="denied"}`:                            {0, 0},
		`rillkeep_readers_closed_total{reason="stop"}`:                              {0, 0},
		"rillkeep_checkpoints_total":                                                {1, 1},
		"rillkeep_seals_total":                                                      {0, 2},
		"rillkeep_checkpoint_units_total":                                           {11, 14},
		"rillkeep_checkpoint_retries_total":                                         {0, 0},
		"rillkeep_checkpoint_failures_total":                                        {0, 0},
		"rillkeep_checkpoint_seconds_count":                                         {1, 3},
		"rillkeep_replaced_characters_total":                                        {1, 1},
		`rillkeep_streams_ended_total{status="complete"}`:                           {0, 1},
		`rillkeep_streams_ended_total{status="error"}`:                              {0, 1},
		`rillkeep_http_requests_total{route="/v1/streams/:id",status="404"}`:        {0, 1},
		`rillkeep_http_requests_total{route="/v1/streams/:id",status="201"}`:        {3, 3},
		`rillkeep_http_requests_total{route="/v1/streams/:id/append",status="200"}`: {2, 2},
	} {
		got := [2]float64{live[name], after[name]}
		if _, there := after[name]; got != want || !there && want[1] != 0 {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	// open, chunk, durable and end, and what the reader that left was sent.
	if frames := after["rillkeep_frames_sent_total"]; frames < 4 || frames > 8 {
		t.Errorf("%v frames", frames)
	}
	if bytes := after["rillkeep_bytes_sent_total"]; bytes < 250 || bytes > 1000 {
		t.Errorf("%v bytes", bytes)
	}
	for _, name := range []string{"go_goroutines", "rillkeep_checkpoint_seconds_sum"} {
		if after[name] <= 0 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
}

func TestTheLogHasALineForEachEvent(t *testing.T) {
	t.Parallel()
	log := &record{}
	n := openNode(t, node.Config{Logger: log.logger()})
	const canary = "TEXT-CANARY-456"
	n.whole("m1", canary, " more "+canary)
	if _, r := n.text("m1", ""); r.end == nil {
		t.Fatal("no end")
	}
	n.open("m2")
	if _, err := n.client.Fail(t.Context(), "m2", "it broke"); err != nil {
		t.Fatal(err)
	}
	await(t, "all ends are logged", func() bool {
		text := log.String()
		return strings.Contains(text, "reader left") && strings.Contains(text, `"status":"error"`)
	})
	var events []string
	for line := range strings.Lines(log.String()) {
		var e struct{ Level, Msg, StreamID, Status, Reason string }
		var status struct{ Status any }
		if err := json.Unmarshal([]byte(line), &status); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		_ = json.Unmarshal([]byte(line), &e) // status is a number in some
		if e.StreamID != "" && e.Level == "INFO" {
			events = append(events, fmt.Sprint(e.Msg, " ", e.StreamID, " ", e.Status))
		}
		if strings.Contains(line, canary) {
			t.Errorf("response text: %s", line)
		}
	}
	want := []string{"stream opened m1 ", "stream ended m1 complete", "stream opened m2 ", "stream ended m2 error"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s\n%s", diff, log)
	}
}

func TestAListingComesInPagesInOrder(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		var all, live []string
		for i := range 25 {
			id := fmt.Sprintf("chat/%02d", i)
			n.open(id)
			all = append(all, id)
			switch i % 4 {
			case 0:
				live = append(live, id)
				n.push(id, 0, "x")
				n.flush(id)
			case 1:
				n.seal(id)
			case 2:
				if _, err := n.client.Fail(t.Context(), id, "it broke"); err != nil {
					t.Fatal(err)
				}
			case 3:
				if _, err := n.client.Close(t.Context(), id, wire.Close{Status: plane.StatusInterrupted}); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.open("other")
		for name, c := range map[string]struct {
			query client.Query
			want  []string
		}{
			"all":              {client.Query{}, append(slices.Clone(all), "other")},
			"a prefix":         {client.Query{Prefix: "chat/"}, all},
			"a longer prefix":  {client.Query{Prefix: "chat/1", Limit: 3}, all[10:20]},
			"no such prefix":   {client.Query{Prefix: "chat%"}, nil},
			"live ones":        {client.Query{Status: "streaming", Prefix: "chat"}, live},
			"after one":        {client.Query{After: "chat/19", Limit: 2}, append(slices.Clone(all[20:]), "other")},
			"after no one":     {client.Query{After: "chat/19x", Prefix: "chat/2"}, all[20:]},
			"pages of one":     {client.Query{Limit: 1}, append(slices.Clone(all), "other")},
			"pages that fit":   {client.Query{Limit: 13}, append(slices.Clone(all), "other")},
			"the longest page": {client.Query{Limit: 999}, append(slices.Clone(all), "other")},
			"cancelled ones":   {client.Query{Status: "cancelled"}, nil},
		} {
			var got []string
			for q, page := c.query, (wire.Listing{}); ; q.After = page.Next {
				var err error
				if page, err = n.client.List(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				if q.Limit > 0 && len(page.Streams) > q.Limit {
					t.Errorf("%s: a page of %d", name, len(page.Streams))
				}
				for _, s := range page.Streams {
					got = append(got, s.StreamID)
					if (s.EndedAt != nil) != s.Status.Ended() || (s.Error != "") != (s.Status == plane.StatusError) {
						t.Errorf("%s: %+v", name, s)
					}
				}
				if page.Next == "" {
					break
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if a := n.do(http.MethodGet, "/v1/streams?prefix=none", ""); a.body != `{"streams":[]}`+"\n" {
			t.Errorf("an empty list: %s", a.body)
		}
		if a := n.do(http.MethodGet, "/v1/streams?limit=26", ""); strings.Contains(a.body, `"next"`) {
			t.Errorf("a last page that is full has a next one: %s", a.body)
		}
		for _, query := range []string{"status=done", "limit=0", "limit=-1", "limit=x", "limit=1000"} {
			wantError(t, query, n.do(http.MethodGet, "/v1/streams?"+query, ""), http.StatusBadRequest, "bad_request")
		}
	})
}

func TestTheSampleIsPlayedIntoANewStream(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	a := n.do(http.MethodPost, "/demo/streams/a%2Fb", "")
	if a.status != http.StatusAccepted || a.body != `{"streamId":"a/b"}`+"\n" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r := n.reads("a/b", "")
	if err := r.until(1); err != nil { // and the node stops with it in mid-play
		t.Error(err)
	}
	wantError(t, "again", n.do(http.MethodPost, "/demo/streams/a%2Fb", ""), http.StatusConflict, "open_here")
}
