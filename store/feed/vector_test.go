package feed_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/store/feed"
)

// vectors is what an implementation of the same contract answered, whose changes
// were of rows in general.
//
//go:embed testdata/realtime.json
var vectors []byte

type vector struct {
	Name   string          `json:"name"`
	Kind   string          `json:"kind"`
	In     json.RawMessage `json:"in"`
	Out    json.RawMessage `json:"out"`
	Ops    []operation     `json:"ops"`
	Expect struct {
		Published []sent `json:"published"`
		Stats     struct {
			Published, Skipped, OutOfOrder int64
		} `json:"stats"`
	} `json:"expect"`
}

type operation struct {
	Op  string `json:"op"`
	LSN string `json:"lsn"`
	N   int    `json:"n"`
}

// sent is one change of a message.
type sent struct {
	LSN string `json:"lsn"`
	Seq int64  `json:"seq"`
	Run int    `json:"run"`
}

// departures are vectors that do not hold here, and why.
var departures = map[string]string{
	"gap/empty-producer-name": "an empty id is none: a publisher's never is",

	"envelope/seq-fraction": "a number that is no positive integer is none",
	"envelope/seq-negative": "a number that is no positive integer is none",

	"replicator/lock-held":                      "every node announces its own changes: there is no lock",
	"replicator/publish-failure-burns-a-number": "a number is given out when its message is sent: a failure is no gap",
}

func TestVectors(t *testing.T) {
	var file struct{ Cases []vector }
	if err := json.Unmarshal(vectors, &file); err != nil {
		t.Fatal(err)
	}
	run := map[string]func(t *testing.T, v vector) (got, want any){
		"gap": gapVector, "envelope": envelopeVector, "replicator": replicatorVector,
	}
	left := len(departures)
	for _, v := range file.Cases {
		t.Run(v.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, want := run[v.Kind](t, v)
				diff := cmp.Diff(want, got)
				if why, departs := departures[v.Name]; departs {
					left--
					if diff == "" {
						t.Errorf("it holds, though %s", why)
					}
				} else if diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	if left != 0 || len(file.Cases) == 0 {
		t.Errorf("%d departures are of no case, of %d cases", left, len(file.Cases))
	}
}

func gapVector(t *testing.T, v vector) (got, want any) {
	var in []json.RawMessage
	var out []*bool
	decode(t, v.In, &in)
	decode(t, v.Out, &out)
	missed := false
	r := receiver(t, feed.ReceiverConfig{Missed: func() { missed = true }})
	answers := make([]*bool, len(in))
	for n, item := range in {
		if string(item) == `"forget"` {
			r.Connected()
			continue
		}
		var numbered [2]json.RawMessage
		decode(t, item, &numbered)
		missed = false
		r.Message(fmt.Sprintf(`{"changes":[{"id":"s","seq":1}],"producer":%s,"seq":%s}`, numbered[0], numbered[1]))
		answers[n] = new(missed)
	}
	return answers, out
}

// envelopeVector reads entity as the id, lsn as the length, and op as the status.
func envelopeVector(t *testing.T, v vector) (got, want any) {
	var text string
	decode(t, v.In, &text)
	var out *struct {
		Change struct{ Entity, LSN string }
		// numbers may be fractions here
		Seq      *float64
		Producer *string
	}
	decode(t, v.Out, &out)
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) == nil && fields != nil {
		text = translated(t, fields)
	}
	e, err := feed.Parse(text)
	if err != nil && !errors.Is(err, feed.ErrMalformed) {
		t.Error(err)
	}
	type envelope struct {
		ID, Producer string
		Length       int64
		Seq          float64
	}
	var said, meant *envelope
	if err == nil {
		said = &envelope{e.Changes[0].ID, e.Producer, e.Changes[0].Seq, float64(e.Seq)}
	}
	if out != nil {
		meant = &envelope{ID: out.Change.Entity, Length: position(t, out.Change.LSN)}
		if out.Seq != nil {
			meant.Seq = *out.Seq
		}
		if out.Producer != nil {
			meant.Producer = *out.Producer
		}
	}
	return said, meant
}

func translated(t *testing.T, fields map[string]json.RawMessage) string {
	change := make(map[string]json.RawMessage)
	for name, value := range fields {
		switch name {
		case "entity":
			change["id"] = value
		case "lsn":
			var lsn string
			decode(t, value, &lsn)
			change["seq"] = json.RawMessage(strconv.FormatInt(position(t, lsn), 10))
		case "op":
			statuses := strings.NewReplacer(`"insert"`, `"streaming"`, `"update"`, `""`, `"delete"`, `"complete"`)
			change["status"] = json.RawMessage(statuses.Replace(string(value)))
		case "seq", "producer":
		default:
			change[name] = value
		}
	}
	message := map[string]any{"changes": []any{change}}
	for _, name := range []string{"seq", "producer", "zzz"} {
		if value, ok := fields[name]; ok {
			message[name] = value
		}
	}
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func position(t *testing.T, lsn string) int64 {
	n, err := strconv.ParseInt(lsn, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func replicatorVector(t *testing.T, v vector) (got, want any) {
	var out recorder
	run, stop := -1, func() {}
	var p *feed.Publisher
	var stats feed.PublisherStats
	for _, op := range v.Ops {
		switch op.Op {
		case "start", "startTwice":
			stop()
			out.run++
			p, stop = publisher(t, feed.PublisherConfig{Send: out.send})
			run++
		case "stop":
			stop()
			stats = p.Stats()
		case "busFails":
			out.fail(op.N)
		case "change":
			p.Publish(feed.Change{ID: "e", Seq: position(t, op.LSN)})
			time.Sleep(time.Second)
		}
	}
	stop()
	var published []sent
	for _, m := range out.messages {
		for _, c := range m.envelope.Changes {
			published = append(published, sent{LSN: fmt.Sprintf("%02x", c.Seq), Seq: m.envelope.Seq, Run: m.run})
		}
	}
	now := p.Stats()
	type answer struct {
		Published                  []sent
		Count, Skipped, OutOfOrder int64
	}
	if run > 0 { // the vectors count over all runs
		now.Published += stats.Published
	}
	return answer{published, now.Published, now.Skipped, now.OutOfOrder},
		answer{v.Expect.Published, v.Expect.Stats.Published, v.Expect.Stats.Skipped, v.Expect.Stats.OutOfOrder}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

// recorder is what a publisher sends to.
type recorder struct {
	run int

	mu       sync.Mutex // guards below
	failures int        // of the next sends
	messages []message
	calls    []time.Time
}

type message struct {
	run      int
	text     string
	envelope feed.Envelope
}

var errBus = errors.New("bus is down")

// fail makes the next n sends fail.
func (r *recorder) fail(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = n
}

func (r *recorder) send(_ context.Context, messages []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, time.Now())
	if r.failures > 0 {
		r.failures--
		return errBus
	}
	for _, text := range messages {
		e, err := feed.Parse(text)
		if err != nil {
			return err
		}
		r.messages = append(r.messages, message{r.run - 1, text, e})
	}
	return nil
}
