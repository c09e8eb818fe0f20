package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// A stream of one node is read through another over a link that fails in every way,
// by readers that come and go at random offsets, in virtual time. What each of them
// is shown is compared with what was produced, by content (S).

// While the link is cut, delayed and repeats itself, but comes back within the
// window, and lives now and then, nobody notices.
func TestReadersElsewhereNoticeNoCut(t *testing.T) {
	elsewhere(t, map[string]func(*remote, *rapid.T){"cut": (*remote).cut, "down": (*remote).shortlyDown})
}

// A link that loses, swaps or alters frames, is down for long, or only ever opens,
// ends its readers with stale, and never with other text.
func TestReadersElsewhereAreShownNothingThatWasNotProduced(t *testing.T) {
	elsewhere(t, map[string]func(*remote, *rapid.T){
		"cut": (*remote).cut, "down": (*remote).longDown, "flap": (*remote).flap,
		"twist": (*remote).twistNext, "twist more": (*remote).twistNext,
	})
}

func elsewhere(t *testing.T, faults map[string]func(*remote, *rapid.T)) {
	_, hostile := faults["twist"]
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			r := newRemote(t, hostile)
			defer r.stop(t)
			actions := map[string]func(*rapid.T){
				"": r.check, "push": r.push, "push on": r.push, "flush": r.flush, "time": r.pass,
				"join": r.join, "join too": r.join, "read": r.read, "leave": r.leave,
			}
			for name, fault := range faults {
				actions[name] = func(t *rapid.T) { fault(r, t) }
			}
			t.Repeat(actions)
			r.calmEnd(t)
		})
	})
}

// remote is an owner, a node that attaches its stream, and what the oracle knows.
type remote struct {
	owner, edge *actor.System
	wire        *wire
	stream      *plane.Stream
	hostile     bool
	retain      int64
	produced    []uint16
	count       int
	twists      []string // what becomes of the next frames
	cuts        int      // of a link that is to live now and then
	readers     []*onlooker
}

// onlooker is a reader at the edge.
type onlooker struct {
	cursor  *plane.Cursor
	from    int64
	opened  bool
	pos     int64
	durable int64
	last    plane.Kind
	left    bool
}

func newRemote(t *rapid.T, hostile bool) *remote {
	store := storetest.NewMemory()
	policy := plane.DefaultPolicy()
	policy.Units = rapid.SampledFrom([]int64{4, 64, 1_000_000}).Draw(t, "units")
	build := func(node string, relay *actor.Relay, retain int64) *actor.System {
		y, err := actor.New(actor.Config{
			Node: node, Plane: plane.Config{Store: store, Policy: policy}, Relay: relay, MirrorRetain: retain,
			Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	r := &remote{hostile: hostile, owner: build("n/1", nil, 0)}
	r.wire = newWire(r.owner)
	r.wire.twist = r.twist
	if hostile {
		r.retain = rapid.SampledFrom([]int64{0, 40}).Draw(t, "retain")
	}
	r.edge = build("n/2", r.wire.relay(), r.retain)
	var err error
	if r.stream, err = r.owner.Open(t.Context(), plane.Claim{ID: "m1"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *remote) stop(t *rapid.T) {
	for _, o := range r.readers {
		o.cursor.Close()
	}
	if err := errors.Join(r.edge.Close(context.Background()), r.owner.Close(context.Background())); err != nil {
		t.Error(err)
	}
	if _, open := r.wire.attaches(); open != 0 {
		t.Errorf("%d sources are open at the end", open)
	}
}

func (r *remote) push(t *rapid.T) {
	r.count++
	text := fmt.Sprintf("%d%s ", r.count, rapid.SampledFrom([]string{"", "😀", "ü", "漢字", "0123456789012345"}).Draw(t, "more"))
	if err := r.stream.Push(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	r.produced = append(r.produced, utf16.Encode([]rune(text))...)
}

func (r *remote) flush(t *rapid.T) {
	if _, err := r.stream.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (r *remote) pass(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{1, 60, 400, 3000}).Draw(t, "ms") * time.Millisecond)
}

func (r *remote) join(t *rapid.T) {
	if len(r.readers) >= 8 {
		t.Skip("enough readers")
	}
	from := rapid.Int64Range(0, int64(len(r.produced))+7).Draw(t, "from")
	c, err := r.edge.Subscribe(t.Context(), actor.Access{StreamID: "m1", From: from, Epoch: rapid.Int64Range(0, 1).Draw(t, "epoch")})
	if err != nil {
		t.Fatal(err)
	}
	r.readers = append(r.readers, &onlooker{cursor: c, from: from})
}

func (r *remote) draw(t *rapid.T) *onlooker {
	if len(r.readers) == 0 {
		t.Skip("no readers")
	}
	return rapid.SampledFrom(r.readers).Draw(t, "reader")
}

func (r *remote) read(t *rapid.T) {
	o := r.draw(t)
	for range rapid.IntRange(1, 10).Draw(t, "frames") {
		if !r.next(t, o) {
			return
		}
	}
}

func (r *remote) leave(t *rapid.T) {
	o := r.draw(t)
	o.cursor.Close()
	o.left = true
	r.readers = slices.DeleteFunc(r.readers, func(other *onlooker) bool { return other == o })
}

func (r *remote) cut(*rapid.T) {
	r.wire.cut()
	synctest.Wait()
	r.live()
}

// live leaves time, after every other cut, for an attach that is worth another.
func (r *remote) live() {
	if r.cuts++; !r.hostile && r.cuts%2 == 0 {
		time.Sleep(actor.DefaultAttachWindow + time.Second)
	}
}

// flap lets the link open and break, and nothing come of it. Who waits for that longer
// than for three windows has been sent elsewhere (L).
func (r *remote) flap(t *rapid.T) {
	for _, o := range r.readers {
		for r.next(t, o) {
		}
	}
	r.wire.set(func(w *wire) { w.flaps = true })
	r.wire.cut()
	d := rapid.SampledFrom([]time.Duration{100, 3000, 9000}).Draw(t, "ms") * time.Millisecond
	time.Sleep(d)
	synctest.Wait()
	for _, o := range r.readers {
		for r.next(t, o) {
		}
		if d > 4*actor.DefaultAttachWindow && !(plane.Frame{Kind: o.last}).Terminal() {
			t.Fatalf("L: a reader at %d of %d got %s last, and waits", o.pos, len(r.produced), o.last)
		}
	}
	r.wire.set(func(w *wire) { w.flaps = false })
	r.wire.cut()
}

func (r *remote) downFor(d time.Duration) {
	r.wire.set(func(w *wire) { w.down = true })
	r.wire.cut()
	time.Sleep(d)
	r.wire.set(func(w *wire) { w.down = false })
}

// shortlyDown leaves time for one more attempt, and for a late frame.
func (r *remote) shortlyDown(t *rapid.T) {
	r.downFor(rapid.SampledFrom([]time.Duration{0, 100, 1000}).Draw(t, "ms") * time.Millisecond)
	time.Sleep(time.Second)
	r.live()
}

func (r *remote) longDown(t *rapid.T) {
	r.downFor(rapid.SampledFrom([]time.Duration{100, 1000, 5000}).Draw(t, "ms") * time.Millisecond)
}

// twistNext decides what becomes of a frame that is to come.
func (r *remote) twistNext(t *rapid.T) {
	how := rapid.SampledFrom([]string{"lost", "swapped", "wild", "long", "other", "early end", "stale"}).Draw(t, "twist")
	r.wire.set(func(*wire) { r.twists = append(r.twists, how) })
}

// twist repeats frames and delays them, by what they are; and does what was drawn.
func (r *remote) twist(f plane.Frame) ([]plane.Frame, time.Duration) {
	late := time.Duration(f.Seq%5) * 50 * time.Millisecond
	out := []plane.Frame{f}
	if f.Seq%3 == 0 {
		out = append(out, f)
	}
	r.wire.mu.Lock()
	defer r.wire.mu.Unlock()
	if len(r.twists) == 0 || f.Kind != plane.KindChunk {
		return out, late
	}
	how := r.twists[0]
	r.twists = r.twists[1:]
	switch half := plane.Cut(f.Text, len(f.Text)/2); how {
	case "lost":
		return nil, late
	case "swapped":
		first, second := f, f
		first.Text, second.Text = f.Text[:half], f.Text[half:]
		first.Seq = f.From + plane.Units(first.Text)
		second.From = first.Seq
		return []plane.Frame{second, first}, late
	case "wild":
		f.From, f.Seq = f.From+1_000_000, f.Seq+1_000_000
	case "long":
		f.Text += "x"
	case "other":
		again := f
		again.Text = "x" + f.Text[plane.Cut(f.Text, 1):]
		return []plane.Frame{f, again}, late
	case "early end":
		return []plane.Frame{{Kind: plane.KindEnd, Seq: f.Seq, Status: plane.StatusComplete, Epoch: f.Epoch}}, late
	case "stale":
		return []plane.Frame{{Kind: plane.KindStale, FloorSeq: f.From}}, late
	}
	return []plane.Frame{f}, late
}

// check lets some readers take what is there.
func (r *remote) check(t *rapid.T) {
	synctest.Wait()
	for i, o := range r.readers {
		if i%2 == 0 {
			for r.next(t, o) {
			}
		}
	}
}

// next takes a reader's next frame, if there is one, and holds it to the contracts.
func (r *remote) next(t *rapid.T, o *onlooker) bool {
	f, ok, more := o.cursor.Poll()
	if !ok {
		if more == nil && o.last == "" {
			t.Fatal("a reader has nothing to wait for, and was told nothing")
		}
		return false
	}
	if o.last != "" && (plane.Frame{Kind: o.last}).Terminal() {
		t.Fatalf("got %+v after %s", f, o.last)
	}
	switch f.Kind {
	case plane.KindOpen:
		if o.opened || f.From > o.from || f.Seq > int64(len(r.produced)) || f.DurableSeq > r.stream.State().Durable {
			t.Fatalf("got %+v at %d of %d", f, o.from, len(r.produced))
		}
		o.opened, o.pos, o.durable = true, f.From, 0
	case plane.KindChunk:
		r.checkChunk(t, o, f)
		o.pos = f.Seq
	case plane.KindDurable:
		if f.Seq < o.durable || f.Seq > o.pos || f.Seq > r.stream.State().Durable {
			t.Fatalf("H: at %d of %d got %+v", o.pos, len(r.produced), f)
		}
		o.durable = f.Seq
	case plane.KindEnd:
		if o.pos != int64(len(r.produced)) || f.Seq != o.pos || !r.stream.State().Over {
			t.Fatalf("H: at %d of %d got %+v", o.pos, len(r.produced), f)
		}
	default:
		if !r.hostile && (o.opened || f.Kind == plane.KindAbsent) { // who joins below what is kept may be sent elsewhere
			t.Fatalf("at %d of %d got %+v", o.pos, len(r.produced), f)
		}
	}
	o.last = f.Kind
	return true
}

func (r *remote) checkChunk(t *rapid.T, o *onlooker, f plane.Frame) {
	text := utf16.Encode([]rune(f.Text))
	if !o.opened || f.From != o.pos || f.Seq > int64(len(r.produced)) || !slices.Equal(text, r.produced[f.From:f.Seq]) {
		t.Fatalf("S: at %d of %q got %+v", o.pos, string(utf16.Decode(r.produced)), f)
	}
}

// calmEnd ends the faults and the stream: nobody waits any longer, and who was not
// sent elsewhere has all of it.
func (r *remote) calmEnd(t *rapid.T) {
	r.wire.set(func(*wire) { r.twists = nil })
	if _, err := r.stream.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	for _, o := range r.readers {
		for r.next(t, o) {
		}
		if !(plane.Frame{Kind: o.last}).Terminal() {
			t.Fatalf("a reader at %d of %d got %s last, and waits", o.pos, len(r.produced), o.last)
		}
	}
}
