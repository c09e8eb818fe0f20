package clustertest

import (
	"context"
	"fmt"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// reader follows a stream through one member, as long as that is there, and compares
// each frame with the script.
type reader struct {
	w        *world
	id       string
	name     string
	script   *script
	selector string
	caller   *caller
	from     int64

	ended   chan struct{}
	first   time.Duration // from the join to the first frame
	pos     int64         // it has the text up to here
	reached int64         // the most that it ever had
	rewinds int           // opens below what it had
	lost    []string      // why connections were lost
	end     plane.Frame
	err     error
}

// read starts a reader of a stream through the member at, from an offset.
func (w *world) read(id string, at int, selector string, from int64) *reader {
	return w.readBy(id, at, selector, from, false)
}

func (w *world) readBy(id string, at int, selector string, from int64, alone bool) *reader {
	r := &reader{
		w: w, id: id, name: fmt.Sprintf("%s at %s, %s from %d", id, w.members[at].name, selector, from),
		script: w.judge.of(id).script, selector: selector, from: from, pos: from, ended: make(chan struct{}),
	}
	r.caller = w.caller(at, alone, func(_ string, why error) {
		w.mu.Lock()
		r.lost = append(r.lost, why.Error())
		w.mu.Unlock()
	})
	w.readers = append(w.readers, r)
	w.running.Go(func() {
		defer close(r.ended)
		defer r.caller.close()
		r.run(w.ctx)
	})
	return r
}

func (r *reader) run(ctx context.Context) {
	began := time.Now()
	for f, err := range r.caller.client.Follow(ctx, r.id, r.from, r.selector) {
		r.w.mu.Lock()
		if r.first == 0 {
			r.first = max(time.Since(began), 1)
		}
		if err != nil {
			r.err = err
		} else {
			r.take(f)
		}
		r.w.mu.Unlock()
	}
}

// take is the check of S and H: what a frame says is what was produced, follows what
// the reader has, and is durable where it says so. w.mu is held.
func (r *reader) take(f plane.Frame) {
	row := r.w.judge.of(r.id).row
	switch f.Kind {
	case plane.KindOpen:
		if f.From > max(r.pos, r.from) {
			r.w.t.Errorf("S: %s: an open at %d, and it has %d", r.name, f.From, r.pos)
		}
		if f.From < r.reached {
			r.rewinds++
		}
		r.pos = f.From
	case plane.KindChunk:
		if f.From != r.pos || f.Seq != f.From+plane.Units(f.Text) || !r.script.is(f.From, f.Text) {
			r.w.t.Errorf("S: %s: at %d it got %q from %d to %d, which is %q", r.name, r.pos, f.Text, f.From, f.Seq, r.script.text(f.From, f.Seq))
		}
		r.pos, r.reached = f.Seq, max(r.reached, f.Seq)
	case plane.KindDurable:
		if f.Seq > row.Seq {
			r.w.t.Errorf("H: %s: it is told that %d units are durable of %d", r.name, f.Seq, row.Seq)
		}
	case plane.KindEnd:
		if f.Seq != r.pos {
			r.w.t.Errorf("S: %s: the end at %d, and it has %d", r.name, f.Seq, r.pos)
		}
		if !row.Status.Ended() && f.Status != plane.StatusInterrupted {
			r.w.t.Errorf("H: %s: the end %s, and the row is %s", r.name, f.Status, row.Status)
		}
		r.end = f
	default:
		r.end = f
	}
}

// state is the reader as it is now.
func (r *reader) state() reader {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return *r
}
