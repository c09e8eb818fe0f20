package actor_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/plane"
)

// A vector is a script for one or two nodes on one store, and everything that a
// working implementation of the same contracts answered.
type vector struct {
	Name    string
	Group   string
	Verdict string // keep: match; improve: do what Want says instead
	Want    string
	Config  vectorConfig
	Ops     []op
	Expect  expectation
}

type vectorConfig struct {
	PlaneDefaults  json.RawMessage
	Planes         map[string]json.RawMessage
	CommitAnswers  []json.RawMessage
	NullableLength bool
	NullableStatus bool
	RejectNul      bool
	Bus            string // log: a bus that remembers
}

// planeConfig is one node's settings; durations are in milliseconds.
type planeConfig struct {
	Chars, Retries, RetainChars *int64
	IntervalMs, LingerMs        *int64
	HostID                      string
	Host, Cancel, Error         *bool
	Mode                        string
	Authorize                   string
	AuthorizeMs                 int64
	MaxQueuedFrames             *int64
	HookThrows                  bool
	Relay                       relayConfig
}

type relayConfig struct {
	Publish         string // record, throw, reject or bus
	Attach          string // script or bus
	AttachTimeoutMs *int64
}

// plane returns the settings of one node: the defaults, overlaid with its own.
func (c vectorConfig) plane(t *testing.T, name string) planeConfig {
	t.Helper()
	var p planeConfig
	for _, layer := range []json.RawMessage{c.PlaneDefaults, c.Planes[name]} {
		if len(layer) == 0 {
			continue
		}
		if err := json.Unmarshal(layer, &p); err != nil {
			t.Fatalf("settings of plane %s: %v", name, err)
		}
	}
	return p
}

// names returns the nodes of the script.
func (c vectorConfig) names() []string {
	if len(c.Planes) == 0 {
		return []string{"A"}
	}
	var names []string
	for name := range c.Planes {
		names = append(names, name)
	}
	return names
}

type op struct {
	Op, As, H, Stream, Plane string
	Text                     vectorText
	Texts                    []vectorText
	Kind                     string
	N                        int
	Ms                       int64
	ReadMs                   *int64
	GapMs                    int64
	ThrowAtEnd               bool
	Set                      map[string]json.RawMessage
	Seq                      int64 // seedChunk
	From                     offset
	User                     string
	Reader                   string
	Sub                      string
	Error                    json.RawMessage
	Meta                     json.RawMessage

	Plan   []plan            // attachPlan
	Src    string            // feed
	Frames []json.RawMessage // feed
	Below  int64             // busTrim
}

// plan is how the relay answers one attach.
type plan struct {
	Answer, As string
	Ms         int64
}

// message is the text that a fail is given.
func (o op) message() string {
	var e struct{ Message *string }
	if json.Unmarshal(o.Error, &e) == nil && e.Message != nil {
		return *e.Message
	}
	var s string
	if json.Unmarshal(o.Error, &s) == nil && string(o.Error) != "null" {
		return s
	}
	return string(o.Error)
}

// vectorText is a text that may hold half pairs: a JSON string, or
// {"$utf16":[…]} with one hexadecimal unit each. It becomes WTF-8.
type vectorText string

func (v *vectorText) UnmarshalJSON(data []byte) error {
	var units struct {
		UTF16 []string `json:"$utf16"`
	}
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(v))
	}
	if err := json.Unmarshal(data, &units); err != nil {
		return err
	}
	var text []byte
	for i := 0; i < len(units.UTF16); i++ {
		unit := func(i int) rune {
			n, _ := strconv.ParseUint(units.UTF16[i], 16, 16)
			return rune(n)
		}
		r := unit(i)
		if i+1 < len(units.UTF16) {
			if pair := utf16.DecodeRune(r, unit(i+1)); pair != '\uFFFD' {
				r = pair
				i++
			}
		}
		text = plane.AppendWTF8(text, r)
	}
	*v = vectorText(text)
	return nil
}

// offset is a join offset as JavaScript knows it: fractions go down, what is
// not finite goes to the end it lies beyond.
type offset int64

func (o *offset) UnmarshalJSON(data []byte) error {
	var special struct {
		Num string `json:"$num"`
	}
	if data[0] == '{' {
		if err := json.Unmarshal(data, &special); err != nil {
			return err
		}
		*o = math.MaxInt64
		if special.Num == "-Infinity" {
			*o = math.MinInt64
		}
		return nil
	}
	var n float64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*o = offset(math.Floor(n))
	return nil
}

type expectation struct {
	Steps       []step
	Subs        map[string]subscription
	Rows        map[string]row
	DurableText map[string]string
	Pumps       map[string]pumped
	Pending     []string

	CheckpointErrors []report

	Published   *[]published // nil: not recorded
	Attaches    []attached
	Sources     map[string]sourced
	RelayErrors []complaint
}

// published is a frame that the relay was given.
type published struct {
	Plane, Stream string
	Frame         frame
}

// attached is one attach that the relay was asked for.
type attached struct {
	T             int64
	Plane, Stream string
	From          int64
}

// sourced is how a source was used.
type sourced struct{ Iterators, Closed int }

// complaint is a failure of the relay that was reported.
type complaint struct {
	T     int64
	Phase string
	Err   refusal
}

// report is a round that was reported as failed.
type report struct{ From, Seq int64 }

// step is what one op brought about.
type step struct {
	Op      int
	Settled []outcome
	Threw   []refusal
	Store   map[string]stored

	threw []error // what ours answered
}

// outcome is a call that came back.
type outcome struct {
	ID    string
	OK    bool
	Value *int64
	Err   *refusal

	err error // what ours answered
}

// refusal is an error, by its code.
type refusal struct {
	Code             string
	Why              string // refused
	Fault            string // store
	Durable          *int64 // ended-short
	Produced         *int64 // ended-short
	Confirmed, Asked *int64 // confirmed-short
}

// stored is what the store shows of a stream while a script runs.
type stored struct {
	Seq       *int64
	Status    *string
	Durable   string
	ChunkRows int
}

// row is a message row at the end.
type row struct {
	Body            string
	Seq             *int64
	Status          *string
	CancelRequested int
	Error           *string
	Host            *string
}

type subscription struct {
	Frames []frame
	Done   bool
}

type pumped struct {
	Pulled int
	Closed bool
}

// frame is a plane.Frame without what the vectors do not know.
type frame struct {
	Type       string
	StreamID   string
	From, Seq  int64
	DurableSeq int64
	FloorSeq   int64
	Ended      bool
	Text       vectorText
	Status     string
	Error      *string
}

func frameOf(f plane.Frame) frame {
	v := frame{
		Type: string(f.Kind), StreamID: f.StreamID, From: f.From, Seq: f.Seq, DurableSeq: f.DurableSeq,
		FloorSeq: f.FloorSeq, Ended: f.Ended, Text: vectorText(f.Text), Status: string(f.Status),
	}
	if f.HasError {
		v.Error = &f.Error
	}
	return v
}

// loadVectors reads one file of testdata.
func loadVectors(t *testing.T, name string) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Count int
		Cases []vector
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(file.Cases) != file.Count {
		t.Fatalf("%s holds %d cases, says %d", name, len(file.Cases), file.Count)
	}
	return file.Cases
}
