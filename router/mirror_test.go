package router

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/storetest"
)

// cluster is an owner, and a router on a node that attaches what it reads.
type cluster struct {
	t     *testing.T
	rows  *storetest.Memory
	owner *actor.System
	edge  *Router
	actor *actor.System

	mu    sync.Mutex // guards below
	to    *actor.System
	down  bool
	hang  bool
	asked int
	cuts  chan struct{}
}

func newCluster(t *testing.T, limits Limits) *cluster {
	t.Helper()
	c := &cluster{t: t, rows: storetest.NewMemory(), cuts: make(chan struct{})}
	c.owner = c.system("n/1", nil)
	c.actor = c.system("n/2", &actor.Relay{Attach: c.attach})
	c.to = c.owner
	var err error
	if c.edge, err = New(Config{Actors: c.actor, Store: c.rows, Metrics: NewMetrics(), Limits: limits}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.edge.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) system(node string, relay *actor.Relay) *actor.System {
	c.t.Helper()
	y, err := actor.New(actor.Config{
		ProducerTimeout: -1,

		Node: node, Plane: plane.Config{Store: c.rows}, Relay: relay,
		Authorize: func(context.Context, actor.Access) (bool, error) { return true, nil },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := y.Close(context.Background()); err != nil {
			c.t.Error(err)
		}
	})
	return y
}

func (c *cluster) attach(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.hang {
		c.mu.Unlock()
		time.Sleep(time.Minute) // and looks at no context
		c.mu.Lock()
	}
	if c.down {
		return nil, 0, errors.New("no route to the owner")
	}
	cursor, err := c.to.Subscribe(ctx, actor.Access{StreamID: id, From: from, Epoch: epoch})
	if err != nil || cursor.Stream() == nil {
		return nil, 0, err
	}
	return attached{cursor, c.cuts}, cursor.Stream().Epoch(), nil
}

// cut breaks what is attached, and says whether anything can be from now on.
func (c *cluster) cut(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	close(c.cuts)
	c.cuts = make(chan struct{})
}

type attached struct {
	cursor *plane.Cursor
	cut    chan struct{}
}

func (a attached) Next(ctx context.Context) (plane.Frame, error) {
	for {
		f, ok, more := a.cursor.Poll()
		switch {
		case ok:
			return f, nil
		case more == nil:
			return f, io.EOF
		}
		select {
		case <-more:
		case <-a.cut:
			return f, errors.New("connection reset")
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
}

func (a attached) Close() error {
	a.cursor.Close()
	return nil
}

func (c *cluster) open(y *actor.System, id string) *plane.Stream {
	c.t.Helper()
	s, err := y.Open(c.t.Context(), plane.Claim{ID: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// follower reads a source as a delivery does, and splices what it is sent.
type follower struct {
	c       *cluster
	from    source
	text    string
	frames  []plane.Frame
	rewinds int
}

// auto is a reader of plane=auto at the edge.
func (c *cluster) auto(id string, at sse.Position) *follower {
	c.t.Helper()
	a := &autoSource{router: c.edge, id: id, at: at}
	live, err := c.actor.Subscribe(c.t.Context(), actor.Access{StreamID: id, From: at.Offset, Epoch: at.Epoch})
	if err != nil {
		c.t.Fatal(err)
	}
	if !a.goLive(live) {
		if a.rest, err = c.edge.follow(id, at); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Cleanup(a.Close)
	return &follower{c: c, from: a}
}

// readFor takes what comes in a while.
func (f *follower) readFor(d time.Duration) {
	f.c.t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		frame, ok, more := f.from.Poll()
		if ok {
			f.take(frame)
		}
		if !ok && more == nil {
			return
		}
		if more == nil {
			continue
		}
		select {
		case <-more:
		case <-end.C:
			return
		}
	}
}

func (f *follower) take(frame plane.Frame) {
	f.c.t.Helper()
	f.frames = append(f.frames, frame)
	switch frame.Kind {
	case plane.KindOpen:
		if len(f.frames) > 1 {
			f.rewinds++
		}
		f.text = f.text[:min(frame.From, int64(len(f.text)))]
	case plane.KindChunk:
		if frame.From != int64(len(f.text)) {
			f.c.t.Errorf("at %d got %+v", len(f.text), frame)
		}
		f.text += frame.Text
	case plane.KindStale, plane.KindAbsent:
		f.c.t.Errorf("got %+v", frame)
	}
}

func (f *follower) want(text string, rewinds int) {
	f.c.t.Helper()
	if f.text != text || f.rewinds != rewinds {
		f.c.t.Errorf("read %q and rewound %d times, want %q and %d", f.text, f.rewinds, text, rewinds)
	}
}

func pushTo(t *testing.T, s *plane.Stream, text string) {
	t.Helper()
	if err := s.Push(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func TestAReaderWhoseAttachIsLostReadsTheDurablePlaneAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		s := c.open(c.owner, "m1")
		pushTo(t, s, "live, ")
		f := c.auto("m1", sse.Position{})
		f.readFor(time.Millisecond)
		f.want("live, ", 0)
		if f.from.Stream() == nil {
			t.Error("it is not read live")
		}
		c.cut(true)
		pushTo(t, s, "durable, ")
		f.readFor(10 * time.Second)
		f.want("live, durable, ", 0)
		if f.from.Stream() != nil {
			t.Error("it is read live")
		}
		asked := c.asked
		f.readFor(time.Minute)
		if n := c.asked - asked; n < 3 || n > 12 {
			t.Errorf("asked %d times in a minute", n)
		}
		c.mu.Lock()
		c.down = false
		c.mu.Unlock()
		f.readFor(20 * time.Second)
		pushTo(t, s, "live again")
		f.readFor(time.Millisecond)
		f.want("live, durable, live again", 0)
		if _, err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.readFor(time.Second)
		if last := f.frames[len(f.frames)-1]; last.Kind != plane.KindEnd {
			t.Errorf("last got %+v", last)
		}
	})
}

func TestAReaderIsRewoundByALaterEpochAndGoesOnLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		s := c.open(c.owner, "m1")
		pushTo(t, s, "abcdef")
		f := c.auto("m1", sse.Position{})
		f.readFor(time.Millisecond)
		// The owner is gone, with what was not durable yet. Another opens the stream.
		c.rows.Edit("m1", func(r *storetest.Row) { r.Status, r.Token = plane.StatusInterrupted, "" })
		next := c.system("n/3", nil)
		taken := c.open(next, "m1")
		pushTo(t, taken, "xyz")
		c.mu.Lock()
		c.to = next
		c.mu.Unlock()
		c.cut(false)
		f.readFor(500 * time.Millisecond)
		f.want("xyz", 1)
		pushTo(t, taken, "!")
		f.readFor(time.Millisecond)
		f.want("xyz!", 1)
	})
}

func TestAReaderOfAStreamThatOpensElsewhereIsLiveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		c.rows.Edit("m1", func(*storetest.Row) {}) // pending
		f := c.auto("m1", sse.Position{})
		f.readFor(time.Minute)
		asked := c.asked
		s := c.open(c.owner, "m1")
		c.edge.Heard(feed.Change{ID: "m1", Epoch: 1, Status: plane.StatusStreaming})
		f.readFor(200 * time.Millisecond)
		pushTo(t, s, "text")
		f.readFor(time.Millisecond)
		f.want("text", 0)
		if s.State().Durable != 0 || c.asked != asked+1 {
			t.Errorf("durable %d, asked %d times more", s.State().Durable, c.asked-asked)
		}
	})
}

// A node that cannot attach is slower than one that can, and no more: the durable
// plane serves, however long an attach takes.
func TestAnAttachThatHangsHoldsUpNoDurableText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{FeedPoll: 100 * time.Millisecond})
		s := c.open(c.owner, "m1")
		c.cut(true)
		f := c.auto("m1", sse.Position{})
		c.mu.Lock()
		c.hang = true
		c.mu.Unlock()
		var want strings.Builder
		for range 30 {
			pushTo(t, s, "text ")
			want.WriteString("text ")
			if _, err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.readFor(250 * time.Millisecond)
			f.want(want.String(), 0)
		}
	})
}

func TestReadersOfOneMirrorAreServedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		c.open(c.owner, "m1")
		first, second := c.auto("m1", sse.Position{}), c.auto("m1", sse.Position{})
		if first.from.Stream() == nil || first.from.Stream() != second.from.Stream() {
			t.Error("they are read from two streams")
		}
	})
}

func TestTheMetricsTellOfWhatIsAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Limits{})
		c.edge.cfg.Metrics.Observe(c.actor, nil)
		c.open(c.owner, "m1")
		f, g := c.auto("m1", sse.Position{}), c.auto("m1", sse.Position{})
		c.cut(false)
		f.readFor(time.Second)
		g.readFor(time.Second)
		families, err := c.edge.cfg.Metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := strings.TrimPrefix(family.GetName(), "rillkeep_relay_")
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"streams_attached": 1, "readers": 2, "attaches_total": 2, "reattached_total": 1,
			"failures_total frames": 1, "failures_total attach": 0, "failures_total publish": 0,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
	})
}
