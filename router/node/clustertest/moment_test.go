package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// moments are exact points of what happens in a world, at which a test intervenes:
//
//	a delta is sent            by a survivor, before the first byte is out
//	a delta is forwarded       to the owner, by the node that the survivor speaks to
//	a reader has text
//	before an append           before it is in the store; as with open, seal, takeover,
//	                           disown and adopt
//	after an append            it is in the store, and who asked has yet to hear of it
//	an append is acknowledged  by the owner, before the first byte is out
//	an open is answered
//	a seal is answered
type moments struct {
	mu    sync.Mutex
	awake map[string]func(*member) // guarded by mu
}

// when does something the next time that a moment comes, before anything else happens to
// who is at it. The channel has that member, nil if it is nobody's moment.
func (w *world) when(moment string, do func(m *member)) <-chan *member {
	w.moments.mu.Lock()
	defer w.moments.mu.Unlock()
	if w.moments.awake == nil {
		w.moments.awake = make(map[string]func(*member))
	}
	came := make(chan *member, 1)
	w.moments.awake[moment] = func(m *member) {
		do(m)
		came <- m
	}
	return came
}

// comes says that a moment has come.
func (w *world) comes(moment string, m *member) {
	w.moments.mu.Lock()
	do := w.moments.awake[moment]
	delete(w.moments.awake, moment)
	w.moments.mu.Unlock()
	if do != nil {
		do(m)
	}
}

// await waits for a moment that is to come.
func (w *world) await(came <-chan *member, what string) *member {
	w.t.Helper()
	select {
	case m := <-came:
		return m
	case <-time.After(settling):
		w.t.Fatalf("this did not come: %s", what)
		return nil
	}
}

// sends says that a delta is sent, if b has one.
func (w *world) sends(b []byte, how string, m *member) {
	if bytes.Contains(b, []byte(`{"text":"`)) {
		w.comes("a delta "+how, m)
	}
}

// watching is a connection on which is watched what is written.
type watching struct {
	net.Conn
	before func([]byte)
}

// watched watches a connection, if there is one.
func watched(c net.Conn, before func([]byte)) net.Conn {
	if c == nil {
		return nil
	}
	return watching{c, before}
}

func (c watching) Write(b []byte) (int, error) {
	c.before(b)
	return c.Conn.Write(b)
}

// answering is a member's listener.
type answering struct {
	net.Listener
	m *member
}

func (l answering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return watched(c, l.answers), err
}

func (l answering) answers(b []byte) {
	switch w := l.m.w; {
	case !bytes.Contains(b, []byte(`"durableSeq":`)), bytes.Contains(b, []byte(`"type":`)): // a frame is a reader's
	case bytes.Contains(b, []byte(`"streamId":`)):
		w.comes("an open is answered", l.m)
	case bytes.Contains(b, []byte(`"status":`)):
		w.comes("a seal is answered", l.m)
	default:
		w.comes("an append is acknowledged", l.m)
	}
}

// locking is a member's way to a database in which others may have rows locked.
type locking struct {
	*storetest.MemoryNode
	m *member
}

func (l locking) check(id string) error {
	if _, yes := l.m.w.locked.Load(id); yes {
		return fmt.Errorf("write %q: %w", id, plane.ErrBusy)
	}
	return nil
}

// around makes a call of the store, between two moments.
func (l locking) around(call string, do func() (plane.Row, error)) (plane.Row, error) {
	l.m.w.comes("before "+call, l.m)
	row, err := do()
	if err == nil {
		l.m.w.comes("after "+call, l.m)
	}
	if l.m.died.Load() {
		return plane.Row{}, storetest.ErrGone
	}
	return row, err
}

func (l locking) Open(ctx context.Context, claim plane.Claim) (plane.Row, error) {
	return l.around("an open", func() (plane.Row, error) { return l.MemoryNode.Open(ctx, claim) })
}

func (l locking) Read(ctx context.Context, id string) (plane.Row, error) {
	return l.around("a read", func() (plane.Row, error) { return l.MemoryNode.Read(ctx, id) })
}

func (l locking) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	return l.around("an append", func() (plane.Row, error) { return l.MemoryNode.Append(ctx, slice) })
}

func (l locking) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return l.around("an adoption", func() (plane.Row, error) { return l.MemoryNode.Adopt(ctx, id, mark, node) })
}

func (l locking) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	if err := l.check(id); err != nil {
		return plane.Row{}, err
	}
	return l.around("a disowning", func() (plane.Row, error) { return l.MemoryNode.Disown(ctx, id, token, session) })
}

func (l locking) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	if err := l.check(seal.ID); err != nil {
		return plane.Row{}, err
	}
	return l.around("a seal", func() (plane.Row, error) { return l.MemoryNode.Seal(ctx, seal) })
}

// TakeOver is also the check of O for what a takeover may take: what it saw, from whom
// has no lease.
func (l locking) TakeOver(ctx context.Context, token string, claim plane.Claim) (plane.Row, error) {
	return l.around("a takeover", func() (plane.Row, error) {
		row, err := l.MemoryNode.TakeOver(ctx, token, claim)
		if err != nil {
			return row, err
		}
		w := l.m.w
		if h := w.judge.of(claim.ID); h.row.Token == row.Token && h.taken != token {
			w.t.Errorf("O: %s: %s took over from %s, and asked to from %s", claim.ID, claim.Node, h.taken, token)
		}
		for _, lease := range w.db.Leases() {
			if strings.HasPrefix(token, lease.Name+"/"+lease.Incarnation+"/") && lease.Expires.After(time.Now()) {
				w.t.Errorf("O: %s: %s took over from %s, whose lease lasts", claim.ID, claim.Node, token)
			}
		}
		return row, nil
	})
}
