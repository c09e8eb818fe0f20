package plane

// Kind names a frame.
type Kind string

// The six frames of a subscription: open first, then chunk and durable in any
// order, then exactly one of end, stale and absent. stale and absent may come
// bare, without an open.
const (
	KindOpen    Kind = "open"    // join accepted; replay starts at From
	KindChunk   Kind = "chunk"   // produced text; Units(Text) == Seq-From
	KindDurable Kind = "durable" // the store holds the prefix through Seq
	KindEnd     Kind = "end"     // sealed; Seq is the durable length
	KindStale   Kind = "stale"   // not to be served live from here: read the durable plane
	KindAbsent  Kind = "absent"  // not hosted: the durable plane is the whole truth
)

// Status is the state of a stream's row.
type Status string

// A row is pending, then streaming, then one of the four that end a stream.
const (
	StatusPending     Status = "pending"
	StatusStreaming   Status = "streaming"
	StatusComplete    Status = "complete"
	StatusCancelled   Status = "cancelled"
	StatusError       Status = "error"
	StatusInterrupted Status = "interrupted"
)

// Ended reports whether s is one of the four statuses that end a stream.
func (s Status) Ended() bool {
	switch s {
	case StatusComplete, StatusCancelled, StatusError, StatusInterrupted:
		return true
	default:
		return false
	}
}

// Frame is one message of a subscription. Only the fields of its kind are set;
// see the kinds for which. A Frame is a value: copying it is cheap and safe.
type Frame struct {
	Kind       Kind
	StreamID   string // open
	From       int64  // open, chunk
	Seq        int64  // open, chunk, durable, end
	DurableSeq int64  // open, stale
	FloorSeq   int64  // stale
	Ended      bool   // open
	Text       string // chunk; valid UTF-8
	Status     Status // end
	Error      string // end, when HasError
	HasError   bool   // end; an error with an empty message is still an error

	// Epoch is the stream's epoch, from 1; 0 is unknown. It is not part of the
	// JSON form: it shows in the resume point.
	Epoch int64

	malformed bool // as it was read, a field was missing or not of its type
	optional  bool // of an unknown kind, but the reader may do without it

	shared *shared // the bytes made of the frame for all who are sent it
}

// Terminal reports whether nothing follows f in its subscription.
func (f Frame) Terminal() bool {
	return f.Kind == KindEnd || f.Kind == KindStale || f.Kind == KindAbsent
}
