package sse

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// defaultLimit bounds a line unless Options say otherwise.
const defaultLimit = 16 << 20

// Options of a Reader. The zero value reads as the standard says.
type Options struct {
	// Limit is the longest line, and the most data in one event, in bytes;
	// 0 means 16 MiB. A Reader holds at most about three times as much.
	Limit int

	// Final hands over the event that the end of the input cut off before its
	// blank line, which the standard drops: some senders omit the last one.
	Final bool
}

// Event is one event of a stream.
type Event struct {
	ID   string // last event id as of this event; "" if none was sent
	Type string // "message" if the stream names none
	Data []byte // as sent, lines joined with LF; valid until the next call of Next
	Cut  bool   // handed over by Options.Final: the data may be incomplete
}

// Reader reads events by the grammar of the HTML standard: lines may end in LF,
// CR or CR LF, mixed; a byte order mark at the start is dropped; comments,
// unknown fields and blocks without data give no event. It does not replace
// invalid UTF-8. A Reader is for one goroutine.
type Reader struct {
	lines lines
	final bool
	err   error // once set, every Next returns it

	data     []byte
	hasData  bool // an event may have a data line and yet no data
	kind     []byte
	id       []byte // the last one read; becomes lastID with its block
	lastID   string
	lastKind string
	retry    time.Duration
	hasRetry bool
}

// NewReader returns a Reader of r. It reads ahead, and never waits for more
// than the event that it returns.
func NewReader(r io.Reader, opts Options) *Reader {
	limit := opts.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	return &Reader{lines: lines{r: r, limit: limit}, final: opts.Final}
}

// Next returns the next event. At the end of the input the error is io.EOF; it
// is ErrTooLong if the limit was passed, else what the input said. After an
// error there are no more events.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	r.clear()
	for {
		line, err := r.lines.next()
		if err != nil {
			return r.end(line, err)
		}
		if len(line) > 0 {
			if err := r.field(line); err != nil {
				r.err = err
				return Event{}, err
			}
			continue
		}
		if r.hasData {
			return r.event(), nil
		}
		r.commitID()
		r.clear()
	}
}

// LastEventID returns the id of the last block that was complete, whether or
// not it had data: what a client resumes from.
func (r *Reader) LastEventID() string { return r.lastID }

// Retry returns the reconnection time that the stream asked for, if it did.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.hasRetry }

// end finishes at the end of the input, of which line is the unfinished rest.
func (r *Reader) end(line []byte, err error) (Event, error) {
	r.err = err
	if !r.final || errors.Is(err, ErrTooLong) {
		return Event{}, err
	}
	if len(line) > 0 {
		if err := r.field(line); err != nil {
			r.err = err
			return Event{}, err
		}
	}
	if !r.hasData {
		return Event{}, err
	}
	ev := r.event()
	ev.Cut = true
	return ev, nil
}

func (r *Reader) event() Event {
	r.commitID()
	return Event{ID: r.lastID, Type: r.eventType(), Data: r.data}
}

// commitID makes the id read last the last event id, without an allocation if
// it is the same as before.
func (r *Reader) commitID() {
	if string(r.id) != r.lastID {
		r.lastID = string(r.id)
	}
}

func (r *Reader) eventType() string {
	if len(r.kind) == 0 {
		return "message"
	}
	if string(r.kind) != r.lastKind {
		r.lastKind = string(r.kind)
	}
	return r.lastKind
}

func (r *Reader) clear() {
	if cap(r.data) > keepSize {
		r.data = nil
	}
	r.data, r.hasData, r.kind = r.data[:0], false, r.kind[:0]
}

// field takes one line that is not blank.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		return r.addData(value)
	case "event":
		r.kind = append(r.kind[:0], value...)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.id = append(r.id[:0], value...)
		}
	case "retry":
		r.setRetry(value)
	}
	return nil
}

func (r *Reader) addData(value []byte) error {
	if len(r.data)+len(value) >= r.lines.limit && r.hasData {
		return tooLong(r.lines.limit)
	}
	if r.hasData {
		r.data = append(r.data, '\n')
	}
	r.hasData = true
	r.data = append(r.data, value...)
	return nil
}

// setRetry takes a reconnection time in milliseconds: digits and nothing else.
func (r *Reader) setRetry(value []byte) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms > int64(maxRetry/time.Millisecond) {
		return
	}
	r.retry, r.hasRetry = time.Duration(ms)*time.Millisecond, true
}

// maxRetry is the longest reconnection time that is believed.
const maxRetry = 24 * time.Hour
