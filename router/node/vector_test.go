package node_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// vector is a case of testdata/http.json: what another implementation of the
// same contracts answered, by kind.
type vector struct {
	Name, Kind, URL, User string
	Headers               map[string]string
	Open                  *struct {
		Push  []string
		Close bool
	}
	Options struct {
		NoSQL bool `json:"noSql"`
		Mode  string
		Plane struct {
			RetainChars *int64
			LingerMs    json.RawMessage
			Policy      struct {
				IntervalMs *int64
				Retries    *int
			}
		}
	}
	StreamID string
	Seq      int64
	Out      json.RawMessage
}

// leftOut are the cases for which there is no such thing here, and why.
var leftOut = map[string]string{
	"get/unconfigured": "a node always has streams",
	"get/bad-url":      "a request's target that is no URL never gets past net/http",

	// A name for a process is no option: each node has its own, and each write
	// carries it.
	"construct/host-id-with-column": "run by package mapped",
	"construct/host-column-no-id":   "run by package mapped",
	"construct/host-id-in-commit":   "the owner's token goes along with the open",

	"construct/relay-empty":                      "one node relays nothing",
	"construct/relay-attach-only":                "one node relays nothing",
	"construct/relay-both":                       "one node relays nothing",
	"construct/attach-timeout-without-relay":     "one node relays nothing",
	"construct/attach-timeout-with-publish-only": "one node relays nothing",
	"construct/zero-queue":                       "readers have no queues",
	"chunk-id/empty-0":                           "an id has a byte at least, a chunk a unit",
	"chunk-id/\u6f22-9007199254740991":           "no text is that long",
	"get/header-beyond-2-53":                     "a reader that has all gets 204, see TestAReaderThatHasAllIsToldToStayAway",

	// A subscription is a GET without a body, and no JSON.
	"json/plain":                 "the id is in the path, the offset in the query: the get cases",
	"json/no-from":               "as a get: TestLastEventIDWinsOverFrom",
	"json/from-zero":             "as a get: TestLastEventIDWinsOverFrom",
	"json/from-bool":             "a query has no types; what is no number is no offset",
	"json/from-1e300":            "a query has no types; the digits before the e are the offset",
	"json/id-missing":            "a path without an id is another route",
	"json/id-null":               "a path has no null",
	"json/id-empty":              "an id has a byte at least",
	"json/body-array":            "a GET's body is not read",
	"json/body-string":           "a GET's body is not read",
	"json/body-number":           "a GET's body is not read",
	"json/bad-from-beats-bad-id": "a bad offset is none, and is no error",
	"json/denied":                "as a get: get/denied",
	"json/denied-after-bad-from": "authorization comes before the offset is looked at",

	// An application's own tables.
	"schema/fits":                    "package mapped runs it",
	"schema/message-unknown":         "package mapped runs it",
	"schema/chunks-unknown":          "package mapped runs it",
	"schema/cancel-missing":          "package mapped runs it",
	"schema/cancel-present-as-body":  "package mapped runs it",
	"ddl/sqlite-default":             "package mapped runs it",
	"ddl/postgres-renamed":           "package mapped runs it",
	"ddl/sqlite-quoted-name-refused": "package mapped runs it",
}

// otherwise are the cases that are run in another way than was recorded, and why.
var otherwise = map[string]string{
	"construct/negative-interval": "what was accepted is refused",
	"construct/negative-retries":  "what was accepted is refused",
	"construct/nan-linger":        "what was accepted is refused",

	"chunk-id/m1-5":   "a chunk's key is a stream and an offset, which the test itself joins as recorded",
	"chunk-id/a:b-12": "a chunk's key is a stream and an offset, which the test itself joins as recorded",
}

func TestRecordedAnswersAreOurs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/http.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Count int
		Cases []vector
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	ran, differ := 0, 0
	for _, v := range all.Cases {
		if leftOut[v.Name] != "" {
			continue
		}
		ran++
		if otherwise[v.Name] != "" {
			differ++
		}
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			switch v.Kind {
			case "get":
				v.get(t)
			case "construct":
				v.construct(t)
			case "chunk-id":
				v.chunkID(t)
			default:
				t.Fatalf("no such kind: %s", v.Kind)
			}
		})
	}
	if len(all.Cases) != all.Count || ran+len(leftOut) != all.Count || differ != len(otherwise) {
		t.Errorf("ran %d of %d cases, %d otherwise, left out %d", ran, all.Count, differ, len(leftOut))
	}
}

// get reads as the case does: stream m1 with its deltas, sealed before, or else
// while the body is read.
func (v vector) get(t *testing.T) {
	keys := newKeys(t)
	policy := plane.DefaultPolicy()
	policy.Interval = time.Hour // no checkpoint comes between
	n := openNode(t, node.Config{Keys: keys.Keys, Policy: policy})
	writer := n.as(keys.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"*"}}))
	seal := func() {
		if _, err := writer.Close(t.Context(), "m1", wire.Close{}); err != nil {
			t.Error(err)
		}
	}
	if v.Open != nil {
		if _, err := writer.Open(t.Context(), "m1", wire.Open{}); err != nil {
			t.Fatal(err)
		}
		pos := int64(0)
		for _, delta := range v.Open.Push {
			ack, err := writer.Append(t.Context(), "m1", pos, delta)
			if err != nil {
				t.Fatal(err)
			}
			pos = ack.Seq
		}
		if v.Open.Close {
			seal()
		}
	}
	u, err := url.Parse(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	reader := keys.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"m1"}})
	if v.User == "intruder" {
		reader = keys.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"own"}})
	}
	s := n.dial()
	header := []string{"Authorization: Bearer " + reader}
	for name, value := range v.Headers {
		header = append(header, name+": "+value)
	}
	s.get("HTTP/1.1", path(u.Query().Get("streamId"))+"?from="+u.Query().Get("from"), header...)

	var want struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal(v.Out, &want); err != nil {
		t.Fatal(err)
	}
	head := strings.Join(s.head(), "\n")
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", want.Status)) {
		t.Fatalf("want %d, got %s", want.Status, head)
	}
	if want.Status != http.StatusOK {
		return // that both bodies are the same is TestADenialSaysNothing's
	}
	for _, name := range []string{"Cache-Control", "Content-Type", "X-Accel-Buffering"} {
		if line := name + ": " + want.Headers[strings.ToLower(name)]; !strings.Contains(head, line) {
			t.Errorf("no %q in %s", line, head)
		}
	}
	wantRetry(s)
	// A durable has no id here.
	body := regexp.MustCompile(`id: \d+\n(data: \{"type":"durable")`).ReplaceAllString(want.Body, "$1")
	if !v.Open.Close { // all but the end
		at := strings.LastIndex(body, "id: ")
		s.want(body[:at])
		body = body[at:]
		seal()
	}
	s.want(body)
	s.wantEnd()
}

// construct makes an actor.System of the case's options.
func (v vector) construct(t *testing.T) {
	policy := plane.DefaultPolicy()
	cfg := actor.Config{
		Node:      "n1/boot",
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	}
	o := v.Options
	switch {
	case o.Mode == "commit":
		cfg.Plane.Commit = func(context.Context, plane.Change) (plane.Answer, error) { return plane.Answer{}, nil }
	case !o.NoSQL:
		cfg.Plane.Store = struct{ plane.Store }{}
	}
	cfg.Plane.Retain = o.Plane.RetainChars
	if ms := o.Plane.Policy.IntervalMs; ms != nil {
		policy.Interval = time.Duration(*ms) * time.Millisecond
	}
	if n := o.Plane.Policy.Retries; n != nil {
		policy.Retries = *n
	}
	if o.Plane.LingerMs != nil { // no number: the nearest that a Duration can say
		cfg.Linger = -1
	}
	cfg.Plane.Policy = policy
	_, err := actor.New(cfg)
	wantOK := string(v.Out) == `"ok"` && otherwise[v.Name] == ""
	if wantOK != (err == nil) || err != nil && !errors.Is(err, plane.ErrConfig) {
		t.Errorf("got %v, want accepted: %v", err, wantOK)
	}
}

// chunkID looks at the key of the row that holds a checkpoint.
func (v vector) chunkID(t *testing.T) {
	n := openNode(t, node.Config{})
	n.open(v.StreamID)
	n.push(v.StreamID, 0, strings.Repeat("x", int(v.Seq)))
	n.flush(v.StreamID)
	db, err := sql.Open("sqlite", "file:"+n.sqliteFile())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var stream string
	var seq int64
	if err := db.QueryRow("SELECT stream_id, seq FROM chunks").Scan(&stream, &seq); err != nil {
		t.Fatal(err)
	}
	var want string
	if err := json.Unmarshal(v.Out, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, fmt.Sprintf("%s:%d", stream, seq)); diff != "" {
		t.Error(diff)
	}
}
