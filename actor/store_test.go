package actor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// vectorStore is the store of a script: an in-memory store whose rows must
// exist before they can be opened, as in the application's own table.
type vectorStore struct {
	*storetest.Memory
	ids     []string
	flagged map[string]bool // cancel flags of a column that is not mapped
	node    planeConfig
	latency time.Duration // of writes
	reading time.Duration // of reads
}

// faults are the store's failures by the names that the vectors give them.
var faults = map[string]error{
	"store-failed":     storetest.ErrWrite,
	"ack-lost":         storetest.ErrAckLost,
	"read-failed":      storetest.ErrRead,
	"down":             storetest.ErrWrite,
	"authorizer-threw": errAuthorizer,
	"generator-threw":  errGenerator,

	"attach-threw":     errAttachThrew,
	"attach-rejected":  errAttachRejected,
	"iterator-threw":   errIteratorThrew,
	"source-threw":     errSourceThrew,
	"publish-threw":    errPublishThrew,
	"publish-rejected": errPublishRejected,
}

func newVectorStore(cfg vectorConfig) *vectorStore {
	v := &vectorStore{Memory: storetest.NewMemory(), flagged: map[string]bool{}}
	v.MustExist, v.RejectNUL = true, cfg.RejectNul
	return v
}

// as returns the store as a node with these settings uses it.
func (v *vectorStore) as(p planeConfig) plane.Store {
	v.node = p
	return v.Memory
}

// do runs an op that is the store's.
func (v *vectorStore) do(t *testing.T, o op) {
	t.Helper()
	switch o.Op {
	case "seedRow":
		v.ids = append(v.ids, o.Stream)
		v.Edit(o.Stream, func(r *storetest.Row) { set(t, r, o.Set) })
	case "setRow":
		v.Edit(o.Stream, func(r *storetest.Row) { set(t, r, o.Set) })
	case "seedChunk":
		v.Edit(o.Stream, func(r *storetest.Row) {
			r.Chunks = append(r.Chunks, plane.Chunk{Seq: o.Seq, Text: string(o.Text)})
		})
	case "deleteRow":
		v.Delete(o.Stream)
	case "cancel":
		if v.node.Cancel != nil && !*v.node.Cancel {
			v.flagged[o.Stream] = true
			return
		}
		v.Edit(o.Stream, func(r *storetest.Row) { r.Cancel = true })
	case "latency":
		v.latency = time.Duration(o.Ms) * time.Millisecond
		if o.ReadMs != nil {
			v.reading = time.Duration(*o.ReadMs) * time.Millisecond
		}
		v.Latency(v.latency, v.reading)
	case "fault":
		v.fault(t, o)
	default:
		t.Fatalf("op %q is not known", o.Op)
	}
}

func (v *vectorStore) fault(t *testing.T, o op) {
	t.Helper()
	switch o.Kind {
	case "failBatch":
		v.FailWrites(o.N)
	case "loseAck":
		v.LoseAcks(o.N)
	case "failQuery":
		v.FailReads(o.N)
	case "clear":
		v.Clear()
		v.Latency(v.latency, v.reading) // it is no fault
	default:
		t.Fatalf("fault %q is not known", o.Kind)
	}
}

// set writes columns of a row.
func set(t *testing.T, r *storetest.Row, columns map[string]json.RawMessage) {
	t.Helper()
	for name, value := range columns {
		var err error
		switch {
		case name == "seq" && string(value) == "null":
			r.NullSeq = true
		case name == "seq":
			err = json.Unmarshal(value, &r.Seq)
		case name == "body":
			err = json.Unmarshal(value, &r.Body)
		case name == "status" && string(value) == "null":
			r.Status = ""
		case name == "status":
			err = json.Unmarshal(value, &r.Status)
		case name == "error":
			r.HasError = true
			err = json.Unmarshal(value, &r.Error)
		default:
			t.Fatalf("column %q is not known", name)
		}
		if err != nil {
			t.Fatalf("column %s: %v", name, err)
		}
	}
}

// show returns what the store holds at this moment.
func (v *vectorStore) show() map[string]stored {
	shown := map[string]stored{}
	for _, id := range v.ids {
		r, ok := v.Row(id)
		if !ok {
			continue
		}
		status := string(r.Status)
		s := stored{Seq: &r.Seq, Status: &status, Durable: r.Body, ChunkRows: len(r.Chunks)}
		for _, c := range r.Chunks {
			s.Durable += c.Text
		}
		if r.NullSeq {
			s.Seq = nil
		}
		if status == "" {
			s.Status = nil
		}
		shown[id] = s
	}
	return shown
}

func (v *vectorStore) texts() map[string]string {
	texts := map[string]string{}
	for id, s := range v.show() {
		texts[id] = s.Durable
	}
	return texts
}

// rows returns the message rows as the vectors show them: the owner token is
// there only where the script's node names a host, and then without its epoch.
func (v *vectorStore) rows() map[string]row {
	rows := map[string]row{}
	for id, s := range v.show() {
		r, _ := v.Row(id)
		out := row{Body: r.Body, Seq: s.Seq, Status: s.Status}
		if r.Cancel || v.flagged[id] {
			out.CancelRequested = 1
		}
		if r.HasError && (v.node.Error == nil || *v.node.Error) {
			out.Error = &r.Error
		}
		if v.node.HostID != "" && r.Token != "" {
			host := r.Token[:strings.LastIndexByte(r.Token, '/')]
			out.Host = &host
		}
		rows[id] = out
	}
	return rows
}
