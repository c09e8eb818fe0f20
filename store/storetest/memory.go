package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// Memory is a store.Store that keeps its rows in memory and fails as it is
// told. It reads time from package time alone, so that it lives in a
// testing/synctest bubble. NewMemory makes one.
type Memory struct {
	// MustExist makes a row necessary for an open, as in tables that belong to
	// an application.
	MustExist bool

	// NoTokens shows no owner tokens and guards nothing by them, as in a table
	// without a column for the host.
	NoTokens bool

	// RejectNUL makes a write whose text holds NUL fail, as Postgres does.
	RejectNUL bool

	// Watch, if set, is told of each change of a row as it takes effect. It is called
	// under the store's lock, and must not call the store.
	Watch func(Change)

	underWay rows.Calls
	lasts    func(token string) bool // whether its owner's lease does; nil if there are none. Under mu

	mu     sync.Mutex // guards below
	rows   map[string]*Row
	past   int64 // highest epoch of a row that was deleted for its age
	chunks map[string][]plane.Chunk
	faults faults
	calls  []Call
}

var (
	_ store.Store = (*Memory)(nil)
	_ Backdoor    = (*Memory)(nil)
)

// NewMemory returns an empty managed store. Set its fields before it is used.
func NewMemory() *Memory {
	return &Memory{rows: make(map[string]*Row), chunks: make(map[string][]plane.Chunk)}
}

// Row is a row as an application's own SQL could read and write it, with the
// chunk rows of its id.
type Row struct {
	Body     string
	Chunks   []plane.Chunk
	Seq      int64
	NullSeq  bool         // the length is NULL
	Status   plane.Status // "" is NULL
	Token    string       // the owner token, in the host column
	Epoch    int64
	Cancel   bool
	Error    string
	HasError bool
	Producer string
	Meta     json.RawMessage
	Created  time.Time
	Updated  time.Time
	Ended    time.Time
}

// Change is what became of a row.
type Change struct {
	Kind          string // open, append, seal, cancel, disown, adopt, takeover, sweep or edit
	ID            string
	By            string // the owner token of who wrote, or without its epoch if it asked for one; "" if it has none
	Before, After Row
}

// note takes down a change of a row that is about to be made; what it answers is
// called when it is. m.mu is held.
func (m *Memory) note(kind, id, by string) (made func()) {
	if m.Watch == nil {
		return func() {}
	}
	before := m.whole(id)
	return func() {
		if after := m.whole(id); !reflect.DeepEqual(before, after) {
			m.Watch(Change{Kind: kind, ID: id, By: by, Before: before, After: after})
		}
	}
}

// whole is a row with its chunks.
func (m *Memory) whole(id string) (row Row) {
	if r := m.rows[id]; r != nil {
		row = *r
	}
	row.Chunks = slices.Clone(m.chunks[id])
	return row
}

// Row answers a row; ok is false if there is none, but for chunk rows that may
// be left of it.
func (m *Memory) Row(id string) (row Row, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.whole(id), m.rows[id] != nil
}

// Edit changes a row and its chunks, and makes a pending one if there is none.
func (m *Memory) Edit(id string, edit func(*Row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.edit(id, edit)
}

func (m *Memory) edit(id string, edit func(*Row)) {
	defer m.note("edit", id, "")()
	m.change(id, edit)
}

func (m *Memory) change(id string, edit func(*Row)) {
	row := Row{Status: plane.StatusPending, Epoch: m.past, Created: time.Now(), Updated: time.Now()}
	if r := m.rows[id]; r != nil {
		row = *r
	}
	row.Chunks = slices.Clone(m.chunks[id])
	edit(&row)
	m.chunks[id], row.Chunks = row.Chunks, nil
	m.rows[id] = &row
}

// Delete deletes a row. Its chunks stay.
func (m *Memory) Delete(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rows, id)
}

// find answers a row to look at or to change. m.mu is held.
func (m *Memory) find(id string) (*Row, error) {
	if r := m.rows[id]; r != nil {
		return r, nil
	}
	return nil, plane.ErrNotFound
}

// row is what a stream is told of r.
func (m *Memory) row(r *Row) plane.Row {
	row := plane.Row{Seq: r.Seq, Status: r.Status, Cancel: r.Cancel, Token: r.Token, Epoch: r.Epoch, Error: r.Error}
	if m.NoTokens {
		row.Token = ""
	}
	return row
}

// claimed is row, with the producer.
func (m *Memory) claimed(r *Row) plane.Row {
	row := m.row(r)
	row.Producer = r.Producer
	return row
}

// owned reports whether a write that carries token reaches r.
func (m *Memory) owned(r *Row, token string) bool {
	return r.Status == plane.StatusStreaming && (m.NoTokens || r.Token == token)
}

func (m *Memory) found(id string, r *Row) rows.Found {
	row := m.row(r)
	row.Token = r.Token // a claim of our own is known by it, shown or not
	return rows.Found{Row: row, NullSeq: r.NullSeq, HasText: r.Body != "" || len(m.chunks[id]) > 0}
}

// probe is the first half of Open under the lock: own is a claim of the node's
// whose answer was lost.
func (m *Memory) probe(c plane.Claim) (row plane.Row, own bool, err error) {
	r, err := m.find(c.ID)
	switch {
	case err == nil:
		own, err = rows.Judge(c.Node, m.found(c.ID, r))
		return m.claimed(r), own, err
	case m.MustExist:
		return plane.Row{}, false, err
	case len(m.chunks[c.ID]) > 0:
		return plane.Row{}, false, fmt.Errorf("%w: chunk rows are left of it", plane.ErrExists)
	default:
		return plane.Row{}, false, nil
	}
}

// claim is the second half of Open under the lock, of a row that was free.
func (m *Memory) claim(c plane.Claim) (plane.Row, error) {
	row, own, err := m.probe(c)
	if err != nil && m.rows[c.ID] != nil {
		own, err = rows.JudgeLost(c.Node, m.found(c.ID, m.rows[c.ID]))
	}
	if own || err != nil {
		return row, err
	}
	defer m.note("open", c.ID, c.Node)()
	if m.rows[c.ID] == nil {
		m.change(c.ID, func(*Row) {})
	}
	r := m.rows[c.ID]
	r.Cancel = r.Cancel && !r.Status.Ended()
	r.Status, r.Epoch = plane.StatusStreaming, r.Epoch+1
	r.Token = plane.MakeToken(c.Node, r.Epoch, nil)
	r.Error, r.HasError, r.Ended, r.Updated = "", false, time.Time{}, time.Now()
	r.Producer = cmp.Or(store.Sound(c.Producer), r.Producer)
	if c.Meta != nil {
		r.Meta = slices.Clone(c.Meta)
	}
	return m.claimed(r), nil
}

// add is Append under the lock.
func (m *Memory) add(slice plane.Slice) (plane.Row, error) {
	r, err := m.find(slice.ID)
	if err != nil {
		return plane.Row{}, err
	}
	defer m.note("append", slice.ID, slice.Token)()
	if m.owned(r, slice.Token) && !r.NullSeq && r.Seq == slice.From && slice.Text != "" {
		m.chunks[slice.ID] = append(m.chunks[slice.ID], plane.Chunk{Seq: slice.Seq, Text: slice.Text})
		r.Seq, r.Updated = slice.Seq, time.Now()
	}
	return m.row(r), nil
}

// seal is Seal under the lock.
func (m *Memory) seal(seal plane.Seal) (plane.Row, error) {
	r, err := m.find(seal.ID)
	if err != nil || !m.owned(r, seal.Token) || r.Seq > seal.Seq {
		if err != nil {
			return plane.Row{}, err
		}
		return m.row(r), nil
	}
	defer m.note("seal", seal.ID, seal.Token)()
	if seal.Meta != nil {
		r.Meta = slices.Clone(seal.Meta)
	}
	below, end, hole := rows.Whole(m.pieces(seal.ID, r), seal.Base)
	if hole != nil {
		m.cut(seal.ID, r, below, end, hole)
		return m.row(r), nil
	}
	status := seal.Status
	if status == plane.StatusComplete && r.Cancel {
		status = plane.StatusCancelled
	}
	m.fold(seal.ID, r, status, below+seal.Text, seal.Seq)
	r.Error, r.HasError = "", seal.HasError
	if seal.HasError {
		r.Error = store.Sound(seal.Error)
	}
	return m.row(r), nil
}

func (m *Memory) fold(id string, r *Row, status plane.Status, body string, seq int64) {
	r.Body, r.Seq, r.Status = body, seq, status
	r.Updated = time.Now()
	r.Ended = r.Updated
	delete(m.chunks, id)
}

// cut ends a stream where its text has a hole. Chunks from beyond stay.
func (m *Memory) cut(id string, r *Row, body string, end int64, hole *plane.HoleError) {
	beyond := slices.DeleteFunc(m.chunks[id], func(c plane.Chunk) bool { return c.Seq <= end })
	r.Error, r.HasError = rows.Missing(hole, r.Seq), true
	m.fold(id, r, plane.StatusInterrupted, body, end)
	m.chunks[id] = beyond
}

func (m *Memory) pieces(id string, r *Row) []rows.Piece {
	pieces := []rows.Piece{rows.BodyPiece(0, r.Body)}
	for _, c := range m.chunks[id] {
		pieces = append(pieces, rows.ChunkPiece(c.Seq, c.Text))
	}
	return pieces
}

// interruptOne seals a row with the text that is durable.
func (m *Memory) interruptOne(kind, id string, r *Row) {
	defer m.note(kind, id, "")()
	body, end, hole := rows.Whole(m.pieces(id, r), r.Seq)
	if hole == nil {
		m.fold(id, r, plane.StatusInterrupted, body, r.Seq)
		r.Error, r.HasError = "", false
	} else {
		m.cut(id, r, body, end, hole)
	}
}

func (m *Memory) list(q store.Query) []store.Stream {
	var list []store.Stream
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		r := m.rows[id]
		if id > q.After && strings.HasPrefix(id, q.Prefix) && (q.Status == "" || r.Status == q.Status) {
			list = append(list, m.stream(id, r))
		}
	}
	return list[:min(len(list), rows.MostOf(q))]
}

func (m *Memory) stream(id string, r *Row) store.Stream {
	return store.Stream{
		ID: id, Row: m.row(r), HasError: r.HasError, Producer: r.Producer, Meta: slices.Clone(r.Meta),
		Created: r.Created, Updated: r.Updated, Ended: r.Ended,
	}
}
