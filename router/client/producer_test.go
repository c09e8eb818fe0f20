package client_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// produce opens a stream to produce, for as long as the test takes.
func produce(t *testing.T, c *client.Client, id string, how client.Producing) *client.Producer {
	t.Helper()
	p, err := c.Produce(within(t, patience), id, how)
	if err != nil {
		t.Fatalf("produce %q: %v", id, err)
	}
	return p
}

// given is a source of deltas.
func given(deltas ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, delta := range deltas {
			if !yield(delta, nil) {
				return
			}
		}
	}
}

// frequent is a policy of many checkpoints.
func frequent() plane.Policy {
	p := plane.DefaultPolicy()
	p.Units, p.Interval = 64, 5*time.Millisecond
	return p
}

func TestAProducerTakesAStreamThroughItsLife(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx := within(t, patience)
	p := produce(t, c, "m", client.Producing{Producer: "app", Meta: []byte(`{"chat":17}`)})
	if err := p.Push(ctx, "one 😀 "); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(ctx); err != nil || p.Acked().DurableSeq != 7 {
		t.Errorf("flush: %v, %+v", err, p.Acked())
	}
	if err := p.Pump(ctx, given("two ", "", "three ")); err != nil {
		t.Fatal(err)
	}
	smile := "and 😀"
	for i := range len(smile) {
		if n, err := p.Write([]byte{smile[i]}); n != 1 || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	if _, err := io.WriteString(p, " end\xf0\x9f"); err != nil {
		t.Fatal(err)
	}
	sealed, err := p.Close(ctx)
	want := "one 😀 two three and 😀 end\uFFFD"
	if n := plane.Units(want); err != nil || sealed != (wire.Sealed{Status: plane.StatusComplete, Seq: n, DurableSeq: n}) {
		t.Errorf("close: %+v, %v", sealed, err)
	}
	snap, err := c.Snapshot(ctx, "m")
	if err != nil || snap.Text != want || snap.Producer != "app" || string(snap.Meta) != `{"chat":17}` {
		t.Errorf("%+v, %v", snap, err)
	}
	if err := p.Push(ctx, "late"); err == nil {
		t.Error("a producer that was closed takes more")
	}
}

func TestAProducerEndsAsItIsTold(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, tt := range map[string]struct {
		end    func(context.Context, *client.Producer) (wire.Sealed, error)
		status plane.Status
	}{
		"failed":      {func(ctx context.Context, p *client.Producer) (wire.Sealed, error) { return p.Fail(ctx, "no") }, plane.StatusError},
		"interrupted": {func(ctx context.Context, p *client.Producer) (wire.Sealed, error) { return p.Interrupt(ctx) }, plane.StatusInterrupted},
	} {
		p := produce(t, c, name, client.Producing{})
		if err := p.Push(t.Context(), "text"); err != nil {
			t.Fatal(err)
		}
		sealed, err := tt.end(within(t, patience), p)
		if err != nil || sealed != (wire.Sealed{Status: tt.status, Seq: 4, DurableSeq: 4}) {
			t.Errorf("%s: %+v, %v", name, sealed, err)
		}
	}
}

func TestAProducerGoesOnThroughBrokenConnections(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Policy: frequent()})
	direct := connect(t, client.Config{Server: n.URL()})
	produced := prose(5_000, rand.New(rand.NewPCG(1, 2)))
	cuts := rand.New(rand.NewPCG(3, 4))
	way := openProxy(t, n.Addr().String(), func() int64 { return 1 + cuts.Int64N(4<<10) })
	c := connect(t, client.Config{Server: way.url()})
	lost := 0
	p := produce(t, c, "m", client.Producing{Backlog: 8000, Lost: func(error) { lost++ }}) // so that there are many acknowledgements to be cut
	done := goFollow(t, direct, "m")
	made := 0
	for part := range slices.Chunk(produced, len(produced)/5) { // and between parts in any case
		if err := p.Pump(t.Context(), given(part...)); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); way.connections() <= made; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not connect again")
			}
		}
		made = way.connections()
		way.cut()
	}
	sealed, err := p.Close(within(t, patience))
	want := strings.Join(produced, "")
	if err != nil || sealed.Status != plane.StatusComplete || textOf(t, direct, "m") != want {
		t.Errorf("sealed %+v, %v, %d units of %d", sealed, err, plane.Units(textOf(t, direct, "m")), plane.Units(want))
	}
	if got := <-done; got.err != nil || got.text() != want || len(got.opens()) != 1 {
		t.Errorf("a reader has %d units of %d, %v, opens at %v", plane.Units(got.text()), plane.Units(want), got.err, got.opens())
	}
	if lost < 3 {
		t.Errorf("%d connections were lost", lost)
	}
}

func TestAProducerOutlivesItsNode(t *testing.T) {
	t.Parallel()
	cfg := node.Config{Policy: manual(), Data: t.TempDir()}
	n := openNode(t, cfg)
	cfg.Listen = n.Addr().String() // the same again
	c := connect(t, client.Config{Server: n.URL()})
	ctx := within(t, patience)
	p := produce(t, c, "m", client.Producing{})
	push := func(delta string) {
		t.Helper()
		if err := p.Push(ctx, delta); err != nil {
			t.Fatal(err)
		}
	}
	push("durable 😀")
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	push(" and not")
	seen, see := when("durable 😀 and not")
	done := goFollow(t, c, "m", see)
	<-seen
	if err := n.Close(); err != nil { // at once: what is not durable is gone
		t.Fatal(err)
	}
	openNode(t, cfg)
	push(", sent again")
	sealed, err := p.Close(ctx)
	want := "durable 😀 and not, sent again"
	if err != nil || sealed.Status != plane.StatusComplete || textOf(t, c, "m") != want {
		t.Errorf("%+v, %v, %q", sealed, err, textOf(t, c, "m"))
	}
	got := <-done
	if got.err != nil || got.text() != want || got.last().Status != plane.StatusComplete {
		t.Errorf("a reader has %q, %v", got.text(), got.err)
	}
	// What it had of the epoch before was not all kept: it is taken back to where
	// the next one began, and no further.
	if opens := got.opens(); !slices.Equal(opens, []int64{0, plane.Units("durable 😀")}) {
		t.Errorf("opens at %v", opens)
	}
}

func TestAProducerWhoseNodeIsGoneGoesToAnother(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	dead := openProxy(t, "127.0.0.1:1", unlimited) // answers nothing
	c := connect(t, client.Config{Server: dead.url(), Others: []string{n.URL()}})
	p := produce(t, c, "m", client.Producing{})
	if err := p.Push(t.Context(), "text"); err != nil {
		t.Fatal(err)
	}
	if sealed, err := p.Close(within(t, patience)); err != nil || sealed.Seq != 4 {
		t.Errorf("%+v, %v", sealed, err)
	}
	if got := follow(within(t, patience), c, "m", 0, ""); got.err != nil || got.text() != "text" {
		t.Errorf("%q, %v", got.text(), got.err)
	}
}

func TestAProducerGivesUpAConnectionThatIsSilent(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Limits: router.Limits{Ping: 50 * time.Millisecond}})
	way := openProxy(t, n.Addr().String(), unlimited)
	c := connect(t, client.Config{Server: way.url(), Silence: 2 * time.Second})
	lost := make(chan error, 100)
	p := produce(t, c, "m", client.Producing{Lost: func(why error) { lost <- why }})
	if err := p.Push(t.Context(), "before, "); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	way.freeze()
	if err := p.Push(t.Context(), "after."); err != nil {
		t.Fatal(err)
	}
	if why := <-lost; why == nil || !strings.Contains(why.Error(), "the server is silent") {
		t.Errorf("lost because %v", why)
	}
	way.thaw()
	if sealed, err := p.Close(within(t, patience)); err != nil || sealed.Seq != 14 {
		t.Errorf("%+v, %v", sealed, err)
	}
}

func TestAProducerIsFencedByTheNextOfItsName(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx := within(t, patience)
	first := produce(t, c, "m", client.Producing{Producer: "app"})
	if err := first.Push(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if err := first.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Produce(ctx, "m", client.Producing{Producer: "other", Resume: true}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("another producer resumes it: %v", err)
	}
	if _, err := c.Produce(ctx, "m", client.Producing{Producer: "app"}); !errors.Is(err, plane.ErrOpenHere) {
		t.Errorf("opened again: %v", err)
	}
	second := produce(t, c, "m", client.Producing{Producer: "app", Resume: true})
	<-first.Done()
	if err := first.Push(ctx, "late"); !errors.Is(err, plane.ErrFenced) {
		t.Errorf("push of the one before: %v", err)
	}
	if _, err := first.Close(ctx); !errors.Is(err, plane.ErrFenced) {
		t.Errorf("close by the one before: %v", err)
	}
	if second.Seq() != 5 {
		t.Errorf("it goes on at %d", second.Seq())
	}
	if err := second.Push(ctx, ", second"); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, c, "m"); got != "first, second" {
		t.Errorf("%q", got)
	}
}

func TestAProducerEndsWithItsStream(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx := within(t, patience)
	for name, tt := range map[string]struct {
		end    func(id string) error
		why    error
		status plane.Status
	}{
		"cancelled": {func(id string) error { _, err := c.Cancel(ctx, id); return err }, plane.ErrCancelled, plane.StatusCancelled},
		"failed":    {func(id string) error { _, err := c.Fail(ctx, id, "no"); return err }, plane.ErrClosed, plane.StatusError},
	} {
		p := produce(t, c, name, client.Producing{})
		if err := p.Push(ctx, "text"); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := tt.end(name); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if err := p.Push(ctx, "late"); !errors.Is(err, tt.why) {
			t.Errorf("%s: push: %v", name, err)
		}
		if err := p.Flush(ctx); err != nil {
			t.Errorf("%s: flush of what is durable: %v", name, err)
		}
		sealed, err := p.Close(ctx)
		if err != nil || sealed.Status != tt.status || sealed.Seq != 4 {
			t.Errorf("%s: %+v, %v", name, sealed, err)
		}
	}
}

func TestAProducerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := start(t)
	why := errors.New("no more")
	ctx, cancel := context.WithCancelCause(within(t, patience))
	p, err := c.Produce(ctx, "m", client.Producing{Backlog: 8})
	if err != nil {
		t.Fatal(err)
	}
	cancel(why)
	<-p.Done()
	for name, err := range map[string]error{
		"push":  p.Push(t.Context(), "text"),
		"pump":  p.Pump(t.Context(), given("text")),
		"flush": func() error { p.Seq(); return p.Err() }(),
		"close": func() error { _, err := p.Close(t.Context()); return err }(),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Produce(ctx, "other", client.Producing{}); !errors.Is(err, why) {
		t.Errorf("produce: %v", err)
	}
}

func TestAProducerThatIsFarAheadWaits(t *testing.T) {
	t.Parallel()
	c := connect(t, client.Config{Server: openNode(t, node.Config{Policy: manual()}).URL()})
	p := produce(t, c, "m", client.Producing{Backlog: 8})
	if err := p.Push(t.Context(), "12345678"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Push(ctx, "9"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
	if err := p.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if err := p.Push(within(t, patience), "9"); err != nil {
		t.Errorf("when it is durable: %v", err)
	}
	if _, err := p.Close(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, c, "m"); got != "123456789" {
		t.Errorf("%q", got)
	}
}
