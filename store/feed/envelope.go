// Package feed spreads the news that streams changed among the nodes of a
// database: ids and offsets, never text. It knows no database: messages go out
// through a function and come in through a Session.
//
// Delivery is at most once. A message may be lost, repeated or overtaken; what
// it says is a hint, and the row is the truth. Who uses the feed therefore looks
// at the rows now and then by itself, and at once when it is told that it may
// have missed something: messages are numbered per producer, so that a Receiver
// notices.
package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

// MaxMessage is the most bytes of a message: PostgreSQL refuses a NOTIFY of
// 8,000.
const MaxMessage = 7999

// ErrMalformed says that a message is none of the feed's.
var ErrMalformed = errors.New("malformed message")

// Change is what became of one stream.
type Change struct {
	ID     string
	Seq    int64        // durable length, UTF-16 code units
	Epoch  int64        // 0 if it is not known
	Status plane.Status // "" if it did not change
	Cancel bool         // the stream was asked to stop
}

// Envelope is one message.
type Envelope struct {
	Changes  []Change // none in a beat, which only tells the newest number
	Producer string   // one id per run; "" if the message has none
	Seq      int64    // number of the message among its producer's, from 1; 0 if it has none
}

// Parse reads a message. It refuses what is no JSON object, or has a change
// without an id, without a length or with a status that is none: with an error
// that is ErrMalformed. A producer or a number that is unusable counts as none:
// the changes are good without.
func Parse(text string) (Envelope, error) {
	if len(text) > MaxMessage || !utf8.ValidString(text) {
		return Envelope{}, fmt.Errorf("%w: %d bytes, valid UTF-8: %t", ErrMalformed, len(text), utf8.ValidString(text))
	}
	var m struct {
		Changes  []change        `json:"changes"`
		Producer json.RawMessage `json:"producer"`
		Seq      json.RawMessage `json:"seq"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if m.Changes == nil {
		return Envelope{}, fmt.Errorf("%w: it has no changes", ErrMalformed)
	}
	e := Envelope{Changes: make([]Change, len(m.Changes))}
	for n, c := range m.Changes {
		if !c.usable() {
			return Envelope{}, fmt.Errorf("%w: change %d has no id, no length or no known status", ErrMalformed, n)
		}
		e.Changes[n] = Change{ID: *c.ID, Seq: *c.Seq, Epoch: c.Epoch, Status: c.Status, Cancel: c.Cancel}
	}
	if json.Unmarshal(m.Producer, &e.Producer) != nil || len(e.Producer) > maxProducer {
		e.Producer = ""
	}
	if json.Unmarshal(m.Seq, &e.Seq) != nil || e.Seq < 1 {
		e.Seq = 0
	}
	return e, nil
}

// maxProducer is the most bytes of a producer's id that are remembered.
const maxProducer = 64

// change is a Change as JSON has it.
type change struct {
	ID     *string      `json:"id"`
	Seq    *int64       `json:"seq"`
	Epoch  int64        `json:"epoch"`
	Status plane.Status `json:"status"`
	Cancel bool         `json:"cancel"`
}

func (c change) usable() bool {
	return c.ID != nil && *c.ID != "" && c.Seq != nil && *c.Seq >= 0 && c.Epoch >= 0 && known(c.Status)
}

func known(s plane.Status) bool {
	return s == "" || s == plane.StatusPending || s == plane.StatusStreaming || s.Ended()
}

// append adds the change to a message.
func (c Change) append(b []byte) []byte {
	b = plane.AppendJSONString(append(b, `{"id":`...), c.ID)
	b = strconv.AppendInt(append(b, `,"seq":`...), c.Seq, 10)
	if c.Epoch > 0 {
		b = strconv.AppendInt(append(b, `,"epoch":`...), c.Epoch, 10)
	}
	if c.Status != "" {
		b = plane.AppendJSONString(append(b, `,"status":`...), string(c.Status))
	}
	if c.Cancel {
		b = append(b, `,"cancel":true`...)
	}
	return append(b, '}')
}

const head = `{"changes":[`

// appendTail ends a message that began with head.
func appendTail(b []byte, producer string, seq int64) []byte {
	b = plane.AppendJSONString(append(b, `],"producer":`...), producer)
	return append(strconv.AppendInt(append(b, `,"seq":`...), seq, 10), '}')
}

// maxTail is the longest of a publisher's tails: its id has 26 bytes.
const maxTail = len(`],"producer":"","seq":}`) + 26 + len("9223372036854775807")

// Messages are changes as messages without a producer and a number.
func Messages(changes []Change) (messages []string) {
	var b []byte
	for _, c := range changes {
		switch next := c.append(nil); {
		case !c.fits():
			continue
		case len(b) > 0 && len(b)+len(next)+maxTail <= MaxMessage:
			b = append(append(b, ','), next...)
			continue
		case len(b) > 0:
			messages = append(messages, string(b)+"]}")
			fallthrough
		default:
			b = append([]byte(head), next...)
		}
	}
	if len(b) > 0 {
		messages = append(messages, string(b)+"]}")
	}
	return messages
}

// fits reports whether a change can be said in a message.
func (c Change) fits() bool {
	const short = 1 << 10 // bytes of an id that fits however it is escaped: six bytes for one, at the most
	return c.ID != "" && utf8.ValidString(c.ID) && c.Seq >= 0 && known(c.Status) &&
		(len(c.ID) <= short || len(head)+len(c.append(nil))+maxTail <= MaxMessage)
}
