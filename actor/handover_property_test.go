package actor_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

// One stream is handed from node to node at random moments, over a store that fails
// and answers late in every way, while its producer repeats what was not taken and
// its readers join again wherever it is. Held to by content: S (every reader has the
// text, without ever going back), P (the stored text is a prefix of it), H, and O (one node at
// most takes text, and what an owner before asked for never lands).
func TestAStreamKeepsItsContractsFromNodeToNode(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("150")
		defer f.Value.Set(f.DefValue)
	}
	var moves atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) { newJourney(t, &moves).run() })
	})
	if moves.Load() < 100 {
		t.Errorf("it moved %d times in all lives", moves.Load())
	}
}

const traveller = "m1"

// journey is a stream under way, and who has to do with it.
type journey struct {
	t      *rapid.T
	store  *tardy
	nodes  []*actor.System
	ledger []uint16      // what the producer has to say
	calm   chan struct{} // closed when nothing goes wrong any more
	calls  sync.WaitGroup
	ctx    context.Context // of all that goes on
	cancel context.CancelFunc

	mu    sync.Mutex // guards below
	wrong []string
}

func newJourney(t *rapid.T, moves *atomic.Int64) *journey {
	j := &journey{t: t, store: &tardy{Memory: storetest.NewMemory()}, calm: make(chan struct{})}
	j.ctx, j.cancel = context.WithTimeout(context.Background(), time.Hour)
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bcd", "é", "漢字", "😀", "🚀🚀", " ", "0123456789"}), 50, 400).Draw(t, "text")
	for _, w := range words {
		j.ledger = append(j.ledger, utf16.Encode([]rune(w))...)
	}
	policy := plane.DefaultPolicy()
	policy.Units, policy.Interval, policy.StoreTimeout, policy.MaxBackoff = 40, 50*time.Millisecond, time.Second, 2*time.Second
	hooks := plane.Hooks{Moved: func(*plane.Stream, plane.Moved) { moves.Add(1) }}
	for n := range 3 {
		y, err := actor.New(actor.Config{
			Node:      fmt.Sprintf("n/%d", n+1),
			Plane:     plane.Config{Store: j.store, Texts: store.Texts(j.store), Policy: policy, Hooks: hooks},
			Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
			Linger:    24 * time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		j.nodes = append(j.nodes, y)
	}
	return j
}

// wrongf notes a breach.
func (j *journey) wrongf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

func (j *journey) run() {
	t := j.t
	defer j.leave()
	if _, err := j.nodes[0].Open(j.ctx, plane.Claim{ID: traveller}); err != nil {
		t.Fatal(err)
	}
	seed := rapid.Uint64().Draw(t, "seed")
	j.calls.Go(func() { j.produce(rand.New(rand.NewPCG(seed, 0))) })
	steps := rapid.IntRange(5, 60).Draw(t, "steps")
	for n := range steps {
		time.Sleep(time.Duration(rapid.IntRange(0, 400).Draw(t, "pause")) * time.Millisecond)
		switch node := j.nodes[rapid.IntRange(0, 2).Draw(t, "node")]; rapid.SampledFrom([]string{"hand over", "hand over", "hand over", "adopt", "join", "fault", "recover"}).Draw(t, "step") {
		case "hand over":
			j.calls.Go(func() { j.handOver() })
		case "adopt":
			j.calls.Go(func() { _, _ = node.Adopt(j.ctx, traveller) })
		case "join":
			j.calls.Go(func() { j.read(rand.New(rand.NewPCG(seed, uint64(n+1)))) })
		case "fault":
			j.fault()
		case "recover":
			j.store.Clear()
		}
		j.check()
	}
	j.store.Clear()
	j.store.recover()
	close(j.calm)
	j.calls.Wait()
	j.store.late.Wait()
	j.check()
	j.end()
}

// leave ends what goes on, also where the test has failed.
func (j *journey) leave() {
	j.cancel()
	j.store.Clear()
	j.store.recover()
	j.calls.Wait()
	for _, y := range j.nodes {
		_ = y.Close(context.Background())
	}
	j.store.late.Wait()
}

// fault makes something go wrong.
func (j *journey) fault() {
	n := rapid.IntRange(1, 3).Draw(j.t, "count")
	switch rapid.SampledFrom([]string{"fail", "lose", "read", "late", "slow", "hang"}).Draw(j.t, "fault") {
	case "fail":
		j.store.FailWrites(n)
	case "lose":
		j.store.LoseAcks(n)
	case "read":
		j.store.FailReads(n)
	case "late":
		j.store.delay(n, time.Duration(rapid.IntRange(1, 50_000).Draw(j.t, "late"))*time.Millisecond)
	case "slow":
		j.store.Latency(100*time.Millisecond, 50*time.Millisecond)
	case "hang":
		j.store.Hang(true)
	}
}

// handOver gives the stream up wherever it is.
func (j *journey) handOver() {
	ctx, cancel := context.WithTimeout(j.ctx, 3*time.Second)
	defer cancel()
	for _, y := range j.nodes {
		if err := y.HandOver(ctx, traveller); errors.Is(err, plane.ErrFenced) {
			j.wrongf("handing over answered %v", err)
		}
	}
}

// live returns the stream wherever it is, and adopts it where it is nowhere.
func (j *journey) live(r *rand.Rand) *plane.Stream {
	for _, y := range j.nodes {
		if s, ok := y.Stream(traveller); ok && s.Refusal() == nil {
			return s
		}
	}
	s, err := j.nodes[r.IntN(len(j.nodes))].Adopt(j.ctx, traveller)
	if err != nil {
		return nil
	}
	return s
}

// produce says all that there is to say, and then ends the stream.
func (j *journey) produce(r *rand.Rand) {
	pause := func(most int) { time.Sleep(time.Duration(r.IntN(most)) * time.Millisecond) }
	for at := int64(0); at < int64(len(j.ledger)) && j.ctx.Err() == nil; pause(30) {
		s := j.live(r)
		if s == nil {
			continue
		}
		to := min(at+1+r.Int64N(60), int64(len(j.ledger)))
		ctx, cancel := context.WithTimeout(j.ctx, 5*time.Second)
		err := s.PushAt(ctx, at, said(j.ledger[at:to]))
		cancel()
		var offset *plane.OffsetError
		switch {
		case err == nil:
			at = to
		case errors.As(err, &offset):
			if offset.Want < at-1 || offset.Want > at || errors.Is(err, plane.ErrConflict) {
				j.wrongf("a push from %d was answered %v", at, err)
			}
			at = offset.Want
		case !errors.Is(err, context.DeadlineExceeded) && j.ctx.Err() == nil:
			j.wrongf("a push from %d was answered %v", at, err)
		}
	}
	select {
	case <-j.calm:
	case <-j.ctx.Done():
	}
	for ; j.ctx.Err() == nil; pause(100) {
		if s := j.live(r); s != nil {
			if _, err := s.Close(j.ctx); err == nil {
				return
			} else if !errors.Is(err, plane.ErrMoved) {
				j.wrongf("close answered %v", err)
				return
			}
		}
	}
}

// said is text as a producer sends it, that may begin and end inside a pair.
func said(units []uint16) string {
	var out []byte
	for i := 0; i < len(units); i++ {
		c := rune(units[i])
		if i+1 < len(units) && utf16.DecodeRune(c, rune(units[i+1])) != '\uFFFD' {
			c = utf16.DecodeRune(c, rune(units[i+1]))
			i++
		}
		out = plane.AppendWTF8(out, c)
	}
	return string(out)
}

// read follows the stream from its start to its end, wherever it goes.
func (j *journey) read(r *rand.Rand) {
	for pos := int64(0); j.ctx.Err() == nil; time.Sleep(time.Duration(1+r.IntN(20)) * time.Millisecond) {
		c, err := j.nodes[r.IntN(len(j.nodes))].Subscribe(j.ctx, actor.Access{StreamID: traveller, From: pos, Epoch: 1})
		if err != nil {
			j.wrongf("subscribe: %v", err)
			return
		}
		var done bool
		if pos, done = j.follow(c, pos); done {
			return
		}
	}
}

// follow reads what a node has, from pos on, and says how far that was.
func (j *journey) follow(c *plane.Cursor, pos int64) (_ int64, done bool) {
	defer c.Close()
	for {
		f, err := c.Next(j.ctx)
		if err != nil {
			j.wrongf("a reader at %d: %v", pos, err)
			return pos, true
		}
		switch f.Kind {
		case plane.KindOpen:
			if f.From != pos || f.Epoch != 1 {
				j.wrongf("a reader at %d was set back: %+v", pos, f)
			}
		case plane.KindChunk:
			if f.From != pos || f.Text != string(utf16.Decode(j.ledger[f.From:f.Seq])) {
				j.wrongf("a reader at %d got %+v", pos, f)
			}
			pos = f.Seq
		case plane.KindDurable:
			if row, _ := j.store.Row(traveller); f.Seq > row.Seq {
				j.wrongf("a reader was told that %d are durable, of %d", f.Seq, row.Seq)
			}
		case plane.KindEnd:
			if f.Seq != int64(len(j.ledger)) || pos != f.Seq || f.Status != plane.StatusComplete {
				j.wrongf("a reader at %d was told %+v", pos, f)
			}
			return pos, true
		default:
			return pos, false
		}
	}
}

// check looks at the stream at a moment when nothing runs.
func (j *journey) check() {
	synctest.Wait()
	taking := 0
	for _, y := range j.nodes {
		if s, ok := y.Stream(traveller); ok && s.Refusal() == nil {
			taking++
		}
	}
	row, _ := j.store.Row(traveller)
	text := row.Body
	for _, c := range row.Chunks {
		text += c.Text
	}
	units := utf16.Encode([]rune(text))
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case len(j.wrong) > 0:
		j.t.Fatalf("%q", j.wrong)
	case taking > 1:
		j.t.Fatalf("%d nodes take text", taking)
	case int64(len(units)) != row.Seq || len(units) > len(j.ledger) || !slices.Equal(units, j.ledger[:len(units)]):
		j.t.Fatalf("stored is %q at %d", text, row.Seq)
	}
}

// end looks at what is left of the journey.
func (j *journey) end() {
	row, _ := j.store.Row(traveller)
	if row.Status != plane.StatusComplete || row.Seq != int64(len(j.ledger)) || row.Epoch != 1 {
		j.t.Errorf("the row is %s at %d of %d in epoch %d", row.Status, row.Seq, len(j.ledger), row.Epoch)
	}
	for _, y := range j.nodes {
		if err := y.Close(context.Background()); err != nil {
			j.t.Error(err)
		}
		if live, lingering := y.Counts(); live+lingering > 0 {
			j.t.Errorf("%d live and %d lingering are left", live, lingering)
		}
	}
}

// tardy is a store some of whose writes get no answer, and are done long after.
type tardy struct {
	*storetest.Memory
	late sync.WaitGroup

	mu    sync.Mutex // guards below
	count int
	by    time.Duration
}

// delay makes count more writes late.
func (s *tardy) delay(count int, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.by = s.count+count, by
}

func (s *tardy) recover() { s.take(1 << 20) }

// take takes up to count of the delays that are due.
func (s *tardy) take(count int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count = min(count, s.count)
	s.count -= count
	return count
}

func (s *tardy) write(ctx context.Context, do func(context.Context) (plane.Row, error)) (plane.Row, error) {
	if s.take(1) == 0 {
		return do(ctx)
	}
	<-ctx.Done()
	s.mu.Lock()
	by := s.by
	s.mu.Unlock()
	s.late.Go(func() {
		time.Sleep(by)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = do(ctx)
	})
	return plane.Row{}, ctx.Err()
}

func (s *tardy) Append(ctx context.Context, slice plane.Slice) (plane.Row, error) {
	return s.write(ctx, func(ctx context.Context) (plane.Row, error) { return s.Memory.Append(ctx, slice) })
}

func (s *tardy) Seal(ctx context.Context, seal plane.Seal) (plane.Row, error) {
	return s.write(ctx, func(ctx context.Context) (plane.Row, error) { return s.Memory.Seal(ctx, seal) })
}

func (s *tardy) Disown(ctx context.Context, id, token string, session int64) (plane.Row, error) {
	return s.write(ctx, func(ctx context.Context) (plane.Row, error) { return s.Memory.Disown(ctx, id, token, session) })
}

func (s *tardy) Adopt(ctx context.Context, id, mark, node string) (plane.Row, error) {
	return s.write(ctx, func(ctx context.Context) (plane.Row, error) { return s.Memory.Adopt(ctx, id, mark, node) })
}
