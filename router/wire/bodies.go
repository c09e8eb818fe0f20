package wire

import (
	"encoding/json"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// Open is the body of an open; all of it is optional.
type Open struct {
	Producer string          `json:"producer,omitempty"`
	Meta     json.RawMessage `json:"meta,omitempty"`
	Resume   bool            `json:"resume,omitempty"` // a stream that is there is no error: the producer goes on with it

	// Instance names one run of a producer, and Attempt counts its opens and resumes:
	// one that arrives after a later one is refused as fenced. Without Instance it
	// would take the stream away from its own sender.
	Instance string `json:"instance,omitempty"`
	Attempt  int64  `json:"attempt,omitempty"`
}

// Opened answers an open.
type Opened struct {
	StreamID   string       `json:"streamId"`
	Seq        int64        `json:"seq"` // where the next append starts
	DurableSeq int64        `json:"durableSeq"`
	Epoch      int64        `json:"epoch"`
	Status     plane.Status `json:"status"`
	Error      string       `json:"error,omitempty"` // with status error

	// ProducerEpoch is what the producer gives as the epoch of its calls, so that it
	// is refused when another has resumed the stream; absent once that has ended.
	ProducerEpoch string `json:"producerEpoch,omitempty"`
}

// Generate is the body of a generate.
type Generate struct {
	Upstream string          `json:"upstream"` // one that the server knows by that name
	Request  json.RawMessage `json:"request"`  // as the upstream's format has it
	Producer string          `json:"producer,omitempty"`
	Meta     json.RawMessage `json:"meta,omitempty"` // an object
}

// Generated answers a generate.
type Generated struct {
	Opened
	Generation Generation `json:"generation"`
}

// Generation is what is known of a model call. The stream's meta has it as its member
// generation: until the stream is sealed, the first two.
type Generation struct {
	Upstream     string          `json:"upstream"`
	Request      string          `json:"request"` // SHA-256 of upstream and request: equal ones are one generation
	Model        string          `json:"model,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"` // as the provider calls it
	Usage        json.RawMessage `json:"usage,omitempty"`        // as the provider says it
}

// Ack answers an append or a flush, and is a line of a pump's answer.
type Ack struct {
	Seq        int64 `json:"seq"` // where the next append starts
	DurableSeq int64 `json:"durableSeq"`
	Done       bool  `json:"done,omitempty"`      // the pump's last line
	Cancelled  bool  `json:"cancelled,omitempty"` // last line: the stream was asked to stop

	// Status, in a pump's last line, is how the stream ended under its hands: Seq
	// and DurableSeq are then its length.
	Status plane.Status `json:"status,omitempty"`
}

// PumpLine is a line of a pump's answer: an Ack, or the error that ended it.
type PumpLine struct {
	Ack
	Error *Error `json:"error,omitempty"`
}

// Close is the body of a close; Status is complete (the default) or interrupted.
type Close struct {
	Status plane.Status `json:"status,omitempty"`
}

// Fail is the body of a fail.
type Fail struct {
	Error string `json:"error"`
}

// Sealed answers a close, a fail or a cancel.
type Sealed struct {
	Status     plane.Status `json:"status"`
	Seq        int64        `json:"seq"`
	DurableSeq int64        `json:"durableSeq"`
}

// Stream is a stream in a listing.
type Stream struct {
	StreamID  string          `json:"streamId"`
	Status    plane.Status    `json:"status"`
	Seq       int64           `json:"seq"`            // durable length
	Host      string          `json:"host,omitempty"` // who has it while it streams, as Member.Name; absent where rows don't say
	Epoch     int64           `json:"epoch"`
	Error     string          `json:"error,omitempty"`
	Producer  string          `json:"producer,omitempty"`
	Meta      json.RawMessage `json:"meta,omitempty"`
	CreatedAt time.Time       `json:"createdAt,omitzero"` // absent where the store does not say, as the next two
	UpdatedAt time.Time       `json:"updatedAt,omitzero"`
	EndedAt   *time.Time      `json:"endedAt,omitempty"`
}

// Listing is a page of streams, ordered by id.
type Listing struct {
	Streams []Stream `json:"streams"`
	Next    string   `json:"next,omitempty"` // the after of the next page
}

// Snapshot is a stream with its text.
type Snapshot struct {
	Stream
	DurableSeq int64  `json:"durableSeq"`
	Text       string `json:"text"`
}

// Cluster is what a node knows of its cluster.
type Cluster struct {
	Self    string   `json:"self"` // the Name of the node that answers
	Ring    string   `json:"ring"` // names the set of members that streams are spread over
	Members []Member `json:"members"`
}

// Member is one run of a node.
type Member struct {
	Name        string  `json:"name"` // node/incarnation
	Node        string  `json:"node"`
	State       string  `json:"state"` // joining, active or draining
	Version     string  `json:"version,omitempty"`
	URL         string  `json:"url,omitempty"` // where its API is
	Share       float64 `json:"share"`         // of new streams, 0 to 1
	*NodeCounts         // absent if it did not answer in time
}

// NodeCounts says what a node holds.
type NodeCounts struct {
	Streams   int `json:"streams"`   // live there
	Lingering int `json:"lingering"` // ended, and still in its memory
}
