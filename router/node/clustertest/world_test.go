package clustertest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/ring/ringtest"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store/storetest"
)

// world is a cluster, who uses it, and what lies between them.
type world struct {
	t       *testing.T
	rng     *rand.Rand // of the test's own goroutine
	began   time.Time
	net     *ringtest.Network
	outside *ringtest.Host // where clients are
	makers  *ringtest.Host // and where survivors
	db      *storetest.SharedMemory
	locked  sync.Map // ids of rows that no owner can give up or end
	judge   *judge
	members []*member
	log     *log
	ping    time.Duration       // of nodes to their readers
	change  func(*node.Cluster) // of what nodes are told of their cluster; nil for nothing
	poses   map[int]int         // numbers of members who say that they are where another is

	ctx       context.Context // of all clients
	end       context.CancelFunc
	running   sync.WaitGroup // clients, and ends of nodes
	producers []*producer
	survivors []*survivor
	moments   moments
	h2        bool // survivors speak HTTP/2; else some do

	transports []*http.Transport // of the survivors
	readers    []*reader
	mu         sync.Mutex // of what readers say
}

// inBubble runs a test in a world of its own, in virtual time. What the test has
// started must come to its end, and nothing may run on.
func inBubble(t *testing.T, seed uint64, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), judge: newJudge(t),
			net:  ringtest.New(ringtest.Options{Latency: time.Millisecond, Jitter: time.Millisecond, Seed: seed}),
			ping: 2 * time.Second, log: &log{began: time.Now(), requests: make(map[string][]request)},
		}
		w.ctx, w.end = context.WithCancel(context.Background())
		w.db = storetest.NewSharedMemory(w.judge.watch)
		w.db.Rows().Latency(2*time.Millisecond, time.Millisecond)
		w.outside, w.makers = w.net.Host("10.2.0.1"), w.net.Host("10.3.0.1")
		defer func() {
			w.close()
			if t.Failed() {
				t.Logf("log:\n%s", w.log.tail(200))
			}
		}()
		test(w)
		w.settle()
	})
}

// others are seeds to run tests with in place of their own: from,to.
var others = flag.String("seeds", "", "seeds `from,to` in place of the tests' own")

// seeds runs a test once for each.
func seeds(t *testing.T, seeds []uint64, test func(w *world)) {
	t.Helper()
	var from, to uint64
	if n, _ := fmt.Sscanf(*others, "%d,%d", &from, &to); n == 2 {
		for seeds = nil; from <= to; from++ {
			seeds = append(seeds, from)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, seed, test)
		})
	}
}

// until waits for something that is to happen within a time, and says how long it took.
func (w *world) until(within time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return time.Since(began)
		}
		if time.Since(began) > within {
			w.t.Errorf("waited %v for this: %s", within, what)
			w.t.FailNow()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settling is how long it may take, from the last fault on, until all has come to its
// end: an owner's lease, the grace, a sweep, and readers that notice.
const settling = 90 * time.Second

// settle is the check of L, and of what is there in the end.
func (w *world) settle() {
	w.t.Helper()
	for _, p := range w.producers {
		w.until(settling+p.length(), "the producer of "+p.id+" ends", func() bool { return isClosed(p.ended) })
	}
	for _, p := range w.survivors {
		w.until(settling+p.length(), "the producer of "+p.id+" ends", func() bool { return isClosed(p.ended) })
	}
	w.until(settling, "no row says streaming", func() bool { return w.judge.streaming() == 0 })
	for _, r := range w.readers {
		w.until(settling, "the end of reader "+r.name, func() bool { return isClosed(r.ended) })
	}
	for _, p := range w.producers {
		w.produced(p)
	}
	for _, p := range w.survivors {
		w.survived(p)
	}
	for _, r := range w.readers {
		w.converged(r)
	}
}

func (w *world) produced(p *producer) {
	row := w.judge.of(p.id).row
	switch {
	case row.Seq < p.durable:
		w.t.Errorf("P: %s: %d units, and %d were durable", p.id, row.Seq, p.durable)
	case p.sealed && row.Status == plane.StatusComplete && row.Seq != p.script.len():
		w.t.Errorf("P: %s: complete with %d units of %d", p.id, row.Seq, p.script.len())
	case !p.sealed && p.refused == nil:
		w.t.Errorf("%s: the producer is not through", p.id)
	}
}

func (w *world) converged(r *reader) {
	row := w.judge.of(r.id).row
	s := r.state()
	switch {
	case s.err != nil:
		w.t.Errorf("%s: %v", r.name, s.err)
	case s.end.Kind != plane.KindEnd:
		w.t.Errorf("%s: it ended with %+v", r.name, s.end)
	case s.script.text(s.base, s.pos) != w.judge.of(r.id).last().text(s.base, s.pos):
		w.t.Errorf("S: %s: what it has is another text than the row's", r.name)
	case s.end.Status != row.Status || s.end.Seq != row.Seq || s.pos != row.Seq:
		w.t.Errorf("%s: it ended %s at %d, has %d units, and the row is %s at %d", r.name, s.end.Status, s.end.Seq, s.pos, row.Status, row.Seq)
	}
}

// unseen fails the test unless no reader noticed anything: none was taken back, sent
// elsewhere, or lost its connection, but for the reasons given.
func (w *world) unseen(but ...string) {
	w.t.Helper()
	for _, r := range w.readers {
		s := r.state()
		if s.rewinds > 0 {
			w.t.Errorf("%s was taken back", r.name)
		}
		for _, why := range s.lost {
			allowed := false
			for _, b := range but {
				allowed = allowed || strings.Contains(why, b)
			}
			if !allowed {
				w.t.Errorf("%s lost its connection: %s", r.name, why)
			}
		}
	}
}

// close ends the world.
func (w *world) close() {
	w.net.Heal()
	for _, m := range w.members {
		m.thaw(false)
	}
	w.end()
	var all sync.WaitGroup
	for _, m := range w.members {
		all.Go(m.close)
	}
	all.Wait()
	w.running.Wait()
	for _, t := range w.transports {
		t.CloseIdleConnections()
	}
	w.db.Wait()
	time.Sleep(2 * time.Minute) // memberlist's goroutines, and timers of late answers
	synctest.Wait()
}

// log is what nodes say, with the world's time.
type log struct {
	began time.Time

	mu       sync.Mutex // guards below
	lines    []string
	requests map[string][]request // by stream
	differs  int                  // how often a node heard that another has another ring
}

// request is one that a node has served.
type request struct {
	member, route, id string
	status            int64
	began, ended      time.Time
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %d in %v", r.member, r.route, r.status, r.ended.Sub(r.began))
}

func (l *log) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "")
}

// differing is how often nodes have said that another has another ring.
func (l *log) differing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.differs
}

// served are the requests of a stream that nodes have served since it was last asked,
// in the order in which they began.
func (l *log) served(id string) (of []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of = l.requests[id]
	delete(l.requests, id)
	slices.SortStableFunc(of, func(a, b request) int { return a.began.Compare(b.began) })
	return of
}

// logger is a member's.
func (l *log) logger(member string) *slog.Logger { return slog.New(&handler{log: l, member: member}) }

type handler struct {
	log    *log
	member string
}

func (h *handler) Enabled(context.Context, slog.Level) bool { return true }
func (h *handler) WithGroup(string) slog.Handler            { return h }
func (h *handler) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	line := new(bytes.Buffer)
	fmt.Fprintf(line, "%9.3f %-5s %-5s %s", time.Since(h.log.began).Seconds(), h.member, r.Level, r.Message)
	req := request{member: h.member, began: r.Time, ended: r.Time}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "route":
			req.route = a.Value.String()
		case "streamId":
			req.id = a.Value.String()
		case "status":
			if a.Value.Kind() == slog.KindInt64 {
				req.status = a.Value.Int64()
			}
		case "took":
			if a.Value.Kind() == slog.KindDuration {
				req.began = req.ended.Add(-a.Value.Duration())
			}
		}
		fmt.Fprintf(line, " %s=%v", a.Key, a.Value)
		return true
	})
	line.WriteByte('\n')
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	switch r.Message {
	case "another node has another ring":
		h.log.differs++
	case "request":
		h.log.requests[req.id] = append(h.log.requests[req.id], req)
	}
	if r.Level > slog.LevelDebug {
		h.log.lines = append(h.log.lines, line.String())
	}
	return nil
}
