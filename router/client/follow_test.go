package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
)

// reading is what a reader was given.
type reading struct {
	frames []plane.Frame
	err    error
	words  string
	wrong  error // it broke the rules of Follow
}

// take adds a frame to the text as its rules say.
func (r *reading) take(f plane.Frame, from int64) {
	r.frames = append(r.frames, f)
	at := from + plane.Units(r.words)
	switch {
	case f.Kind == plane.KindOpen && f.From <= at:
		r.words = r.words[:len(r.words)-len(plane.Skip(r.words, max(0, f.From-from)))]
	case f.Kind == plane.KindChunk && f.From == at && f.Seq == at+plane.Units(f.Text) && utf8.ValidString(f.Text):
		r.words += f.Text
	case f.Kind == plane.KindOpen, f.Kind == plane.KindChunk:
		r.wrong = fmt.Errorf("%s from %d to %d of a reader at %d", f.Kind, f.From, f.Seq, at)
	}
}

func (r *reading) text() string { return r.words }

func (r *reading) last() plane.Frame {
	if len(r.frames) == 0 {
		return plane.Frame{}
	}
	return r.frames[len(r.frames)-1]
}

// opens are the offsets of the open frames.
func (r *reading) opens() []int64 {
	var at []int64
	for _, f := range r.frames {
		if f.Kind == plane.KindOpen {
			at = append(at, f.From)
		}
	}
	return at
}

// follow reads to the end. seen, if there is one, is called after each frame.
func follow(ctx context.Context, c *client.Client, id string, from int64, selector string, seen ...func(*reading)) *reading {
	r := &reading{}
	for f, err := range c.Follow(ctx, id, from, selector) {
		if err != nil {
			r.err = err
			break
		}
		r.take(f, from)
		for _, call := range seen {
			call(r)
		}
	}
	if r.err == nil {
		r.err = r.wrong
	}
	return r
}

// goFollow follows from the start on a goroutine, which ends with the test's
// context.
func goFollow(t *testing.T, c *client.Client, id string, seen ...func(*reading)) <-chan *reading {
	t.Helper()
	ctx := within(t, patience)
	done := make(chan *reading, 1)
	go func() { done <- follow(ctx, c, id, 0, "", seen...) }()
	return done
}

// when returns a channel that is closed the first time that a reader has the
// text, and what notices.
func when(text string) (<-chan struct{}, func(*reading)) {
	there := make(chan struct{})
	return there, func(r *reading) {
		if r.last().Kind == plane.KindChunk && r.text() == text {
			close(there)
		}
	}
}

// prose returns n deltas of text with characters of all widths, which differ.
func prose(n int, rng *rand.Rand) []string {
	words := []string{"plain ", "Grüße ", "日本語 ", "😀🎈 ", "\n", "\"quoted\"\\ ", "data: x\n\n"}
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%d%s", i, words[rng.IntN(len(words))])
	}
	return out
}

func TestFollowYieldsExactlyTheTextThroughBrokenConnections(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	direct := connect(t, client.Config{Server: n.URL()})
	rng := rand.New(rand.NewPCG(1, 2))
	produced := prose(40_000, rng)
	want := strings.Join(produced, "")
	open(t, direct, "m")

	// Each connection is cut at any byte: in the head of the answer, within a
	// character, behind the end; some before the first frame has passed.
	cuts := rand.New(rand.NewPCG(3, 4))
	p := openProxy(t, n.Addr().String(), func() int64 { return 1 + cuts.Int64N(200<<10) })
	var lost []error
	c := connect(t, client.Config{Server: p.url(), Lost: func(_ string, why error) { lost = append(lost, why) }})
	done := goFollow(t, c, "m")
	seq := int64(0)
	for i := 0; i < len(produced); i += 200 {
		delta := strings.Join(produced[i:i+200], "")
		seq = appendAt(t, direct, "m", seq, delta)
	}
	closed(t, direct, "m")
	got := <-done
	if got.err != nil || got.text() != want || got.last().Status != plane.StatusComplete {
		t.Errorf("%d units of %d, last %s, %v", plane.Units(got.text()), plane.Units(want), got.last().Kind, got.err)
	}
	if opens := got.opens(); len(opens) != 1 || opens[0] != 0 {
		t.Errorf("a reader that was never taken back was told of opens at %v", opens)
	}
	if made := p.connections(); made < 3 || len(lost) < made-1 {
		t.Errorf("%d connections, %d said to be lost", made, len(lost))
	}
}

func TestFollowGivesUpAConnectionThatIsSilent(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 50 * time.Millisecond}})
	direct := connect(t, client.Config{Server: n.URL()})
	open(t, direct, "m")
	seq := appendAt(t, direct, "m", 0, "before, ")
	p := openProxy(t, n.Addr().String(), unlimited)
	lost := make(chan error, 100)
	c := connect(t, client.Config{
		Server: p.url(), Silence: 2 * time.Second, Lost: func(_ string, why error) { lost <- why },
	})
	met, meet := when("before, ")
	done := goFollow(t, c, "m", meet)
	<-met
	p.freeze()
	seq = appendAt(t, direct, "m", seq, "while nothing passed, ")
	why := <-lost
	p.thaw()
	appendAt(t, direct, "m", seq, "after.")
	closed(t, direct, "m")
	got := <-done
	if want := "before, while nothing passed, after."; got.err != nil || got.text() != want {
		t.Errorf("%q, %v", got.text(), got.err)
	}
	if why.Error() != "the server is silent" {
		t.Errorf("lost because %v", why)
	}
}

func TestFollowGoesOnWhenTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Policy: manual(), Data: t.TempDir()}
	n := openNode(t, cfg)
	c := connect(t, client.Config{Server: n.URL()})
	cfg.Listen = n.Addr().String() // the same again
	open(t, c, "m")
	seq := appendAt(t, c, "m", 0, "durable 😀")
	if _, err := c.Flush(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	appendAt(t, c, "m", seq, " and lost")

	seen, see := when("durable 😀 and lost")
	done := goFollow(t, c, "m", see)
	<-seen
	if err := n.Close(); err != nil { // at once: what is not durable is gone
		t.Fatal(err)
	}
	openNode(t, cfg)
	got := <-done
	if got.err != nil || got.text() != "durable 😀" || got.last().Status != plane.StatusInterrupted {
		t.Errorf("%q, last %+v, %v", got.text(), got.last(), got.err)
	}
	if opens := got.opens(); len(opens) < 2 || opens[len(opens)-1] != seq {
		t.Errorf("opens at %v, want the last to go back to %d", opens, seq)
	}
}

func TestFollowReadsThePlaneItIsAskedFor(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: manual(), Limits: router.Limits{DurablePoll: 10 * time.Millisecond}, Linger: time.Millisecond})
	c := connect(t, client.Config{Server: n.URL()})
	open(t, c, "m")
	seq := appendAt(t, c, "m", 0, "durable,")
	if _, err := c.Flush(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	appendAt(t, c, "m", seq, " live")
	for selector, want := range map[string]string{"durable": "durable,", "live": "durable, live", "auto": "durable, live"} {
		var got reading
		for f, err := range c.Follow(within(t, patience), "m", 0, selector) {
			if err != nil {
				t.Fatal(err)
			}
			if got.take(f, 0); f.Kind == plane.KindDurable || got.text() == want {
				break // no more comes for now
			}
		}
		if got.wrong != nil || got.text() != want {
			t.Errorf("%s: %q, %v, want %q", selector, got.text(), got.wrong, want)
		}
	}
	closed(t, c, "m")
	for deadline := time.Now().Add(patience); ; {
		got := follow(within(t, patience), c, "m", 0, "live")
		if got.err == nil && got.last().Kind == plane.KindAbsent {
			break
		}
		if got.err != nil || time.Now().After(deadline) {
			t.Fatalf("a stream that is not in memory any more: %+v, %v", got.frames, got.err)
		}
	}
	if got := follow(within(t, patience), c, "none", 0, "live"); got.err != nil || got.last().Kind != plane.KindAbsent {
		t.Errorf("live plane of nothing: %+v, %v", got.frames, got.err)
	}
	if got := follow(within(t, patience), c, "m", 0, "sideways"); got.err == nil || !strings.Contains(got.err.Error(), "plane is") {
		t.Errorf("no such plane: %v", got.err)
	}
}

func TestFollowJoinsAtAnyOffset(t *testing.T) {
	t.Parallel()
	c := start(t)
	open(t, c, "m")
	const text = "a😀b"
	appendAt(t, c, "m", 0, text)
	closed(t, c, "m")
	for from, want := range map[int64]struct {
		text string
		open int64
	}{
		-5: {text, 0}, 0: {text, 0}, 1: {"😀b", 1}, 2: {"😀b", 1}, 3: {"b", 3}, 4: {"", 4}, 99: {"", 4}, 1 << 62: {"", 4},
	} {
		var got string
		var opens []int64
		for f, err := range c.Follow(within(t, patience), "m", from, "") {
			if err != nil {
				t.Fatalf("from %d: %v", from, err)
			}
			switch f.Kind {
			case plane.KindOpen:
				opens = append(opens, f.From)
			case plane.KindChunk:
				got += f.Text
			}
		}
		if got != want.text || len(opens) != 1 || opens[0] != want.open {
			t.Errorf("from %d: %q, opens at %v, want %+v", from, got, opens, want)
		}
	}
}

func TestFollowEndsWithItsContextAndItsLoop(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := connect(t, client.Config{Server: n.URL(), HTTP: &http.Client{Transport: transport}})
	open(t, c, "m")
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(within(t, patience))
	defer cancel(nil)
	var got []plane.Kind
	var last error
	for f, err := range c.Follow(ctx, "m", 0, "") {
		got, last = append(got, f.Kind), err
		cancel(enough)
	}
	if len(got) != 2 || got[0] != plane.KindOpen || !errors.Is(last, enough) {
		t.Errorf("%v, then %v", got, last)
	}
	for _, err := range c.Follow(within(t, patience), "m", 0, "") {
		if err != nil {
			t.Error(err)
		}
		break
	}
	for _, err := range c.Follow(ctx, "m", 0, "") {
		if !errors.Is(err, enough) {
			t.Errorf("with a context that is over: %v", err)
		}
	}
}
