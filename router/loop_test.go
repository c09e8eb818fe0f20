package router

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/ring/ringtest"
	"rillkeep.dev/rillkeep/router/peer"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

// islander is a member whose ring says what it is told to say, and which knows members
// by addresses that need not be theirs.
type islander struct {
	name   string
	owner  string            // of all streams
	addrs  map[string]string // of all members that are known
	client *peer.Client
	*Router
}

func (m *islander) Self() string           { return m.name }
func (m *islander) Owner(string) string    { return m.owner }
func (m *islander) Has(member string) bool { return m.addrs[member] != "" }
func (m *islander) Takers(string) []string { return nil }
func (m *islander) Waits(string) bool      { return false }
func (m *islander) Digest() string         { return m.name }
func (m *islander) Describe() wire.Cluster { return wire.Cluster{} }
func (m *islander) Do(ctx context.Context, member string, req *http.Request) (*http.Response, error) {
	return m.client.Do(ctx, peer.Peer{Name: member, Addr: m.addrs[member]}, req)
}

// archipelago is three of them, n/1 to n/3, and what is between them.
type archipelago struct {
	*testing.T
	net     *ringtest.Network
	rows    *storetest.Memory
	members []*islander
	served  atomic.Int64 // requests between them
	open    atomic.Int64 // connections
}

// counted is one of a number of connections.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

func peerAddr(i int) string { return fmt.Sprintf("10.0.0.%d:7947", i+1) }

func newArchipelago(t *testing.T) *archipelago {
	a := &archipelago{T: t, net: ringtest.New(ringtest.Options{Latency: time.Millisecond}), rows: storetest.NewMemory()}
	for i := range 3 {
		a.join(i)
	}
	return a
}

func (a *archipelago) join(i int) {
	a.Helper()
	m := &islander{name: fmt.Sprintf("n/%d", i+1), addrs: map[string]string{}}
	for k := range 3 {
		m.addrs[fmt.Sprintf("n/%d", k+1)] = peerAddr(k)
	}
	host := a.net.Host(fmt.Sprintf("10.0.0.%d", i+1))
	actors, err := actor.New(actor.Config{
		Plane: plane.Config{Store: a.rows}, Node: m.name, Authorize: Authorize,
		Relay: &actor.Relay{Attach: func(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
			return m.Attach(ctx, id, from, epoch)
		}},
	})
	if err != nil {
		a.Fatal(err)
	}
	if m.Router, err = New(Config{Actors: actors, Store: a.rows, Metrics: NewMetrics(), Cluster: m}); err != nil {
		a.Fatal(err)
	}
	id := peer.Identity{Name: m.name, Cluster: "test", Secrets: []peer.Secret{"a secret of the test's cluster"}}
	inner := m.Inner()
	server, err := peer.NewServer(peer.ServerConfig{Identity: id, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.served.Add(1)
		inner.ServeHTTP(w, r)
	})})
	if err != nil {
		a.Fatal(err)
	}
	if m.client, err = peer.New(peer.Config{Identity: id, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := host.Dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		a.open.Add(1)
		return &counted{conn, sync.OnceFunc(func() { a.open.Add(-1) })}, nil
	}}); err != nil {
		a.Fatal(err)
	}
	listener, err := host.Listen(7947)
	if err != nil {
		a.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // until it is closed
	a.Cleanup(func() {
		_ = m.Router.Close(context.Background())
		_ = actors.Close(context.Background())
		_ = m.client.Close()
		_ = server.Close()
	})
	a.members = append(a.members, m)
}

// stopwatch is an answer, and what there was when it began.
type stopwatch struct {
	*httptest.ResponseRecorder
	all   *atomic.Int64 // requests
	began time.Time
	asked int64 // of all
}

func (w *stopwatch) WriteHeader(status int) {
	w.note()
	w.ResponseRecorder.WriteHeader(status)
}

func (w *stopwatch) Write(b []byte) (int, error) {
	w.note()
	return w.ResponseRecorder.Write(b)
}

func (w *stopwatch) note() {
	if w.began.IsZero() {
		w.began, w.asked = time.Now(), w.all.Load()
	}
}

// Report 64, forward-loop.
func TestNoRequestGoesRoundWhatEverMembersTakeEachOtherFor(t *testing.T) {
	has := func(token string) func(*archipelago) {
		return func(a *archipelago) {
			a.rows.Edit("s", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, token, 1 })
		}
	}
	for name, set := range map[string]func(*archipelago){
		"each names the other":                              func(*archipelago) {},
		"each names the other, and the row the first":       has("n/1/1"),
		"each names the other, and the row the second":      has("n/2/1"),
		"each names the other, and the row a third":         has("n/3/1"),
		"each names the other, and the row one who is gone": has("n/4/1"),
		"the other is known by one's own address": func(a *archipelago) {
			has("n/2/1")(a)
			a.members[0].addrs["n/2"] = peerAddr(0)
		},
		"the other is known by a third's address": func(a *archipelago) {
			has("n/2/1")(a)
			a.members[0].addrs["n/2"] = peerAddr(2)
		},
		"all are known by one address": func(a *archipelago) {
			has("n/3/1")(a)
			for _, m := range a.members {
				for other := range m.addrs {
					m.addrs[other] = peerAddr(1)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchipelago(t)
				for i, owner := range []string{"n/2", "n/1", "n/1"} {
					a.members[i].owner = owner
				}
				set(a)
				for range 3 { // what is remembered from before changes nothing
					for _, m := range a.members {
						a.ask(m, http.MethodGet, "")
						a.ask(m, http.MethodPost, "/append?from=0")
						a.ask(m, http.MethodPost, "/pump?from=0")
						a.ask(m, http.MethodPost, "/cancel")
					}
				}
				time.Sleep(time.Minute) // of what still looks for the stream
			})
		})
	}
}

// patient is how long who asks stays, if it is a reader who can.
const patient = 10 * time.Second

// ask makes a request of a member, and checks how it is answered, how soon, and by how
// many.
func (a *archipelago) ask(m *islander, method, route string) {
	a.Helper()
	ctx, leave := context.WithTimeout(a.Context(), patient)
	defer leave()
	req := httptest.NewRequestWithContext(ctx, method, "/v1/streams/s"+route, strings.NewReader("x"))
	req.Host = "localhost"
	req.Header.Set("Content-Type", "text/plain")
	before, began := a.served.Load(), time.Now()
	w := &stopwatch{ResponseRecorder: httptest.NewRecorder(), all: &a.served}
	m.ServeHTTP(w, req)
	synctest.Wait()
	what := m.name + ": " + method + " " + route
	if took := w.began.Sub(began); took > 2*time.Second {
		a.Errorf("%s is answered after %v", what, took)
	}
	most := int64(maxHops)
	if method == http.MethodGet {
		most *= 2 // who can't be attached is looked for once more
	}
	if w.asked-before > most || a.served.Load()-before > 10 { // and now and then while the reader stays
		a.Errorf("%s was sent on %d times, and then %d times", what, w.asked-before, a.served.Load()-w.asked)
	}
	if n := a.open.Load(); n > 6 {
		a.Errorf("%s: %d connections are open between three members", what, n)
	}
	switch w.Code {
	case http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusConflict:
	case http.StatusServiceUnavailable:
		if w.Header().Get("Retry-After") == "" {
			a.Errorf("%s: %v", what, w.Header())
		}
	default:
		a.Errorf("%s: %d %s", what, w.Code, w.Body)
	}
}
