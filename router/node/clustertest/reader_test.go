package clustertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rillkeep.dev/rillkeep/plane"
)

// reader follows a stream through one member, as long as that is there, and compares
// each frame with the script.
type reader struct {
	w        *world
	id       string
	name     string
	script   *script // what it has the text of
	selector string
	caller   *caller
	from     int64
	base     int64 // the lowest offset that it has text of

	ended   chan struct{}
	first   time.Duration // from the join to the first frame
	pos     int64         // it has the text up to here
	reached int64         // the most that it ever had
	rewinds int           // opens below what it had
	mended  int           // and those after which another text followed
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
		script: w.judge.of(id).script, selector: selector, from: from, base: from, pos: from, ended: make(chan struct{}),
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

// take is the check of S and H: what a frame says follows what the reader has, all that
// it has is what was produced in one epoch, and is durable where it says so. w.mu is
// held.
func (r *reader) take(f plane.Frame) {
	h := r.w.judge.of(r.id)
	switch f.Kind {
	case plane.KindOpen:
		if f.From > max(r.pos, r.from) {
			r.w.t.Errorf("S: %s: an open at %d, and it has %d", r.name, f.From, r.pos)
		}
		if f.From < r.reached {
			r.rewinds++
			r.rewound(h, f.From)
		}
		r.pos, r.base = f.From, min(r.base, f.From)
	case plane.KindChunk:
		if f.From != r.pos || f.Seq != f.From+plane.Units(f.Text) || !r.follows(h, f) {
			r.w.t.Errorf("S: %s: at %d it got %q from %d to %d, which is %q", r.name, r.pos, f.Text, f.From, f.Seq, r.script.text(f.From, f.Seq))
		}
		r.pos, r.reached = f.Seq, max(r.reached, f.Seq)
		r.w.comes("a reader has text", nil)
	case plane.KindDurable:
		if f.Seq > h.row.Seq {
			r.w.t.Errorf("H: %s: it is told that %d units are durable of %d", r.name, f.Seq, h.row.Seq)
		}
	case plane.KindEnd:
		if f.Seq != r.pos {
			r.w.t.Errorf("S: %s: the end at %d, and it has %d", r.name, f.Seq, r.pos)
		}
		if !h.row.Status.Ended() && f.Status != plane.StatusInterrupted {
			r.w.t.Errorf("H: %s: the end %s, and the row is %s", r.name, f.Status, h.row.Status)
		}
		r.end = f
	default:
		r.end = f
	}
}

// rewound is the check of a reader that is taken back: to where an epoch began, or
// further by a node that knows less; else to the durable text, which is all that is left
// for who comes anew while its owner is gone.
func (r *reader) rewound(h history, to int64) {
	if to == h.row.Seq || to == h.before || len(h.origins) > 0 && to <= slices.Max(h.origins) {
		return
	}
	r.w.t.Errorf("S: %s: it had %d, and is taken back to %d of %d; epochs began at %v", r.name, r.reached, to, h.row.Seq, h.origins)
}

// follows reports whether a chunk and all the text that the reader has are of one text:
// the one of which it had been, or that of a later epoch. w.mu is held.
func (r *reader) follows(h history, f plane.Frame) bool {
	if r.script.is(f.From, f.Text) {
		return true
	}
	later := false
	for _, t := range h.texts {
		if later && t.script.is(f.From, f.Text) && t.script.text(r.base, r.pos) == r.script.text(r.base, r.pos) {
			r.script = t.script
			r.mended++
			return true
		}
		later = later || t.script == r.script
	}
	return false
}

// state is the reader as it is now.
func (r *reader) state() reader {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return *r
}
