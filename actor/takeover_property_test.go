package actor_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// A stream is kept by nodes that die at every point of an append, or are taken for
// dead and return, and produced by clients that resume it, take it over and fence each
// other, over a store that fails and answers late. Held to by content: S (what a
// reader has is the text of one epoch, whose beginning is that of the epochs before
// up to where they were lost), P, H, and O (an epoch has one owner, and what is stored
// is the newest one's).

func TestWhatOneProducerSaysIsKeptWhicheverNodeDies(t *testing.T) { heirs(t, 1) }

func TestNoReaderHoldsAMixtureOfWhatTwoProducersSay(t *testing.T) { heirs(t, 2) }

func heirs(t *testing.T, voices int) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("300")
		defer f.Value.Set(f.DefValue)
	}
	var seen fates
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) { newLineage(t, voices, &seen).run() })
	})
	if n := [...]int64{seen.takeovers.Load(), seen.fenced.Load(), seen.rewinds.Load(), seen.lost.Load()}; min(n[0], n[1], n[2], n[3]) < 100 {
		t.Errorf("in all lives: %d takeovers, %d producers fenced, %d rewinds, %d times text lost with its owner", n[0], n[1], n[2], n[3])
	}
}

// fates are what happened in all lives.
type fates struct{ takeovers, fenced, rewinds, lost atomic.Int64 }

// lineage is a stream, and who has to do with it.
type lineage struct {
	t      *rapid.T
	seen   *fates
	store  *estate
	voices [][]rune
	calls  sync.WaitGroup
	calm   chan struct{} // closed when nothing goes wrong any more
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards below
	hosts   []*heir
	boots   int
	texts   map[int64]string                      // what was produced in each epoch
	newest  map[*plane.Stream]plane.ProducerEpoch // who resumed it last
	readers []*follower
	wrong   []string
}

// heir is a node, or was.
type heir struct {
	*actor.System
	name  string
	store *mortal
	away  atomic.Bool // no client reaches it
}

func newLineage(t *rapid.T, voices int, seen *fates) *lineage {
	l := &lineage{
		t: t, seen: seen, store: &estate{tardy: &tardy{Memory: storetest.NewMemory()}, lapse: map[string]bool{}},
		texts: map[int64]string{}, newest: map[*plane.Stream]plane.ProducerEpoch{}, calm: make(chan struct{}), hosts: make([]*heir, 3),
	}
	l.ctx, l.cancel = context.WithTimeout(context.Background(), time.Hour)
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bcd", "é", "漢字", "😀", "🚀🚀", " ", "0123456789"}), 100, 1500).Draw(t, "text")
	other := strings.NewReplacer("a", "A", "bcd", "BCD", "é", "É", "漢字", "字漢", "😀", "😁", "🚀", "🚁", "0", "9")
	text := strings.Join(words, "")
	l.voices = [][]rune{[]rune(text), []rune(other.Replace(text))}[:voices]
	for n := range l.hosts {
		l.boot(n)
	}
	return l
}

// boot starts a node anew.
func (l *lineage) boot(n int) {
	l.mu.Lock()
	l.boots++
	h := &heir{name: fmt.Sprintf("n/%d", l.boots)}
	l.mu.Unlock()
	h.store = &mortal{estate: l.store, died: func() { l.bury(h) }}
	policy := plane.DefaultPolicy()
	policy.Units, policy.Interval, policy.StoreTimeout, policy.MaxBackoff = 100, 400*time.Millisecond, time.Second, 2*time.Second
	y, err := actor.New(actor.Config{
		Node: h.name, Plane: plane.Config{Store: h.store, Texts: store.Texts(l.store), Policy: policy},
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
		Linger:    24 * time.Hour, ProducerTimeout: -1,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	h.System = y
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts[n] = h
}

// bury is what becomes of a node that died: its lease ends in a while.
func (l *lineage) bury(h *heir) {
	l.calls.Go(func() {
		_ = h.Close(context.Background())
		time.Sleep(time.Second)
		l.store.lapsed(h.name, true)
	})
}

func (l *lineage) wrongf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *lineage) host(n int) *heir {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[n]
}

func (l *lineage) run() {
	t := l.t
	defer l.leave()
	if _, err := l.host(0).Open(l.ctx, plane.Claim{ID: traveller, Producer: "app"}); err != nil {
		t.Fatal(err)
	}
	seed := rapid.Uint64().Draw(t, "seed")
	l.client(0, rand.New(rand.NewPCG(seed, 0)))
	steps := rapid.IntRange(5, 60).Draw(t, "steps")
	for n := range steps {
		time.Sleep(time.Duration(rapid.IntRange(0, 600).Draw(t, "pause")) * time.Millisecond)
		at := rapid.IntRange(0, 2).Draw(t, "node")
		h, r := l.host(at), rand.New(rand.NewPCG(seed, uint64(n+1)))
		switch rapid.SampledFrom([]string{"die", "die", "doom", "doom", "away", "hand over", "client", "join", "join", "fault", "recover"}).Draw(t, "step") {
		case "die":
			h.store.die()
		case "doom":
			h.store.doomed(rapid.SampledFrom([]doom{afterAccept, afterCommit}).Draw(t, "doom"))
		case "away":
			l.away(h, rapid.Bool().Draw(t, "reached"), time.Duration(rapid.IntRange(1, 10).Draw(t, "away"))*time.Second)
		case "hand over":
			l.calls.Go(func() {
				ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
				defer cancel()
				_ = h.HandOver(ctx, traveller)
			})
		case "client":
			l.client(rapid.IntRange(0, len(l.voices)-1).Draw(t, "voice"), r)
		case "join":
			l.join(r)
		case "fault":
			l.fault()
		case "recover":
			l.store.Clear()
		}
		if h := l.host(at); h.store.isDead() && rapid.Bool().Draw(t, "boot") {
			l.boot(at)
		}
		l.check()
	}
	l.store.Clear()
	l.store.recover()
	for n := range l.hosts {
		if h := l.host(n); h.store.isDead() {
			l.boot(n)
		} else {
			h.store.doomed(spared)
		}
	}
	close(l.calm)
	l.calls.Wait()
	l.store.late.Wait()
	l.check()
	l.end()
}

// away is a node that the others take for dead, and that goes on, be it reached by
// clients or not, and comes back.
func (l *lineage) away(h *heir, reached bool, d time.Duration) {
	h.away.Store(!reached)
	l.store.lapsed(h.name, true)
	l.calls.Go(func() {
		time.Sleep(d)
		if h.store.isDead() {
			return
		}
		l.store.lapsed(h.name, false)
		h.away.Store(false)
		time.Sleep(100 * time.Millisecond)
		_ = h.Verify(l.ctx)
	})
}

func (l *lineage) fault() {
	n := rapid.IntRange(1, 3).Draw(l.t, "count")
	switch rapid.SampledFrom([]string{"fail", "lose", "read", "late", "slow", "hang"}).Draw(l.t, "fault") {
	case "fail":
		l.store.FailWrites(n)
	case "lose":
		l.store.LoseAcks(n)
	case "read":
		l.store.FailReads(n)
	case "late":
		l.store.delay(n, time.Duration(rapid.IntRange(1, 20_000).Draw(l.t, "late"))*time.Millisecond)
	case "slow":
		l.store.Latency(100*time.Millisecond, 50*time.Millisecond)
	case "hang":
		l.store.Hang(true)
	}
}

func (l *lineage) leave() {
	l.cancel()
	l.store.Clear()
	l.store.recover()
	l.calls.Wait()
	for n := range l.hosts {
		_ = l.host(n).Close(context.Background())
	}
	l.store.late.Wait()
	time.Sleep(5 * time.Minute) // what is given back late
	synctest.Wait()
}

// note takes down what a stream's text is after a push, and holds it to O.
func (l *lineage) note(s *plane.Stream) {
	text, from, _ := s.Snapshot()
	epoch := s.Epoch()
	l.mu.Lock()
	defer l.mu.Unlock()
	if from == 0 && !l.agrees(epoch, text) { // else it has retired
		l.wrong = append(l.wrong, fmt.Sprintf("epoch %d has %q and %q", epoch, l.texts[epoch], text))
	}
}

// stored is the row, and the text that it holds.
func (l *lineage) stored() (row storetest.Row, text string) {
	row, _ = l.store.Row(traveller)
	text = row.Body
	for _, c := range row.Chunks {
		text += c.Text
	}
	return row, text
}

// check looks at everything at a moment when nothing runs.
func (l *lineage) check() {
	synctest.Wait()
	for n := range l.hosts {
		if s, ok := l.host(n).Stream(traveller); ok {
			l.note(s)
		}
	}
	row, text := l.stored()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.wrong) > 0:
		l.t.Fatalf("%q", l.wrong)
	case plane.Units(text) != row.Seq || !l.spoken(text):
		l.t.Fatalf("stored is %q at %d", text, row.Seq)
	case !l.agrees(row.Epoch, text):
		l.t.Fatalf("stored is %q in epoch %d, which is %q", text, row.Epoch, l.texts[row.Epoch])
	}
	for epoch, known := range l.texts { // P, also of epochs that are over: up to where they were lost
		end := row.Seq
		if epoch < row.Epoch {
			end = (plane.Row{Token: row.Token}).Origins().Rewind(row.Seq, epoch, row.Epoch)
		}
		common := text[:byteOf(text, end)]
		if !strings.HasPrefix(known, common) && !strings.HasPrefix(common, known) {
			l.t.Fatalf("stored is %q in epoch %d, and epoch %d had %q, lost from %d", text, row.Epoch, epoch, known, end)
		}
	}
	for _, f := range l.readers {
		if !l.agrees(f.epoch, f.text.Text()) {
			l.t.Fatalf("a reader has %q of epoch %d, which is %q", f.text.Text(), f.epoch, l.texts[f.epoch])
		}
	}
}

// spoken reports whether each character of a text is what a producer says there.
func (l *lineage) spoken(text string) bool {
	at := 0
	for _, r := range text {
		if !slices.ContainsFunc(l.voices, func(v []rune) bool { return at < len(v) && v[at] == r }) {
			return false
		}
		at++
	}
	return true
}

// agrees reports whether somebody's text of an epoch is that, or its beginning, as far
// as it is known. l.mu is held.
func (l *lineage) agrees(epoch int64, text string) bool {
	known := l.texts[epoch]
	if epoch > 0 && strings.HasPrefix(text, known) {
		l.texts[epoch] = text
	}
	return epoch == 0 || strings.HasPrefix(l.texts[epoch], text)
}

// byteOf is where the unit at an offset of s begins.
func byteOf(s string, at int64) int {
	for i, r := range s {
		if at <= 0 {
			return i
		}
		at -= plane.Units(string(r))
	}
	return len(s)
}

// end looks at what is left.
func (l *lineage) end() {
	row, text := l.stored()
	if row.Status != plane.StatusComplete || text != l.texts[row.Epoch] || plane.Units(text) != plane.Units(string(l.voices[0])) {
		l.t.Errorf("the row is %s with %q, want %q", row.Status, text, l.texts[row.Epoch])
	}
	if len(l.voices) == 1 && text != string(l.voices[0]) {
		l.t.Errorf("stored is %q, want %q", text, string(l.voices[0]))
	}
	for _, f := range l.readers {
		if !f.ended || f.text.Text() != text {
			l.t.Errorf("a reader has %q (ended: %v), want %q", f.text.Text(), f.ended, text)
		}
	}
}
