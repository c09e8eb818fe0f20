package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"rillkeep.dev/rillkeep/router/web"
	"rillkeep.dev/rillkeep/router/wire"
)

// node is a stand-in that speaks the API to the page, and can be told to treat
// it badly. The text of its streams is kept as code units.
type node struct {
	*httptest.Server

	mu       sync.Mutex // guards below
	streams  map[string]*stream
	token    string        // asked for unless ""
	cut      int           // chunks after which a connection breaks; 0 is never
	stale    int           // chunks after which a live reader is sent to the durable plane
	cluster  *wire.Cluster // nil for a node that is alone
	run      []process     // by who runs the nodes; nil where nobody does
	did      []string      // to them
	requests []string      // targets, in order
	reads    []http.Header // of event streams
}

// process is a node as who runs it tells of it.
type process struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
}

type stream struct {
	host    string // a member
	units   []uint16
	durable int
	epoch   int
	began   int    // where the epoch began
	ended   string // status
	changed chan struct{}
}

func openNode(tb testing.TB) *node {
	tb.Helper()
	n := &node{streams: make(map[string]*stream)}
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler())
	mux.HandleFunc("GET /v1/streams", n.list)
	mux.HandleFunc("GET /v1/streams/{id}", n.read)
	mux.HandleFunc("POST /v1/streams/{id}/cancel", n.cancel)
	mux.HandleFunc("POST /demo/streams/{id}", n.demo)
	mux.HandleFunc("GET /v1/cluster", n.describe)
	mux.HandleFunc("GET /dev/nodes", n.nodes)
	mux.HandleFunc("POST /dev/nodes/{name}/{action}", n.act)
	n.Server = httptest.NewServer(n.guard(mux))
	tb.Cleanup(func() {
		n.CloseClientConnections()
		n.Close()
	})
	return n
}

// guard asks for the token, like the API for all but the page.
func (n *node) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.requests = append(n.requests, r.Method+" "+r.URL.String())
		token := n.token
		n.mu.Unlock()
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if given == "" {
			given = r.URL.Query().Get("access_token")
		}
		if api := strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/demo/"); api && given != token {
			refuse(w, http.StatusUnauthorized, "unauthorized", "give a token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the page may be gone
}

// change runs f on a stream, made if need be, and wakes its readers.
func (n *node) change(id string, f func(*stream)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.streams[id]
	if !ok {
		s = &stream{epoch: 1, changed: make(chan struct{})}
		n.streams[id] = s
	}
	f(s)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (n *node) push(id, text string) {
	n.change(id, func(s *stream) { s.units = append(s.units, utf16.Encode([]rune(text))...) })
}

func (n *node) checkpoint(id string) { n.change(id, func(s *stream) { s.durable = len(s.units) }) }

func (n *node) end(id, status string) {
	n.change(id, func(s *stream) { s.durable, s.ended = len(s.units), status })
}

// lose starts a new epoch at an offset, as after the loss of the owner.
func (n *node) lose(id string, at int) {
	n.change(id, func(s *stream) {
		s.units, s.durable, s.began, s.epoch = slices.Clone(s.units[:at]), at, at, s.epoch+1
	})
}

func (n *node) set(f func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func (n *node) list(w http.ResponseWriter, r *http.Request) {
	type row struct {
		StreamID  string    `json:"streamId"`
		Status    string    `json:"status"`
		Seq       int       `json:"seq"`
		Host      string    `json:"host,omitempty"`
		UpdatedAt time.Time `json:"updatedAt"`
	}
	rows := []row{}
	n.mu.Lock()
	for id, s := range n.streams {
		status := "streaming"
		if s.ended != "" {
			status = s.ended
		}
		if asked := r.URL.Query().Get("status"); asked == "" || asked == status {
			rows = append(rows, row{id, status, s.durable, s.host, time.Now()})
		}
	}
	n.mu.Unlock()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.StreamID, b.StreamID) })
	answer(w, http.StatusOK, map[string]any{"streams": rows})
}

func (n *node) describe(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cluster == nil {
		refuse(w, http.StatusNotImplemented, "unsupported", "this node is alone")
		return
	}
	answer(w, http.StatusOK, n.cluster)
}

func (n *node) nodes(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil {
		refuse(w, http.StatusNotFound, "no_route", "no such route")
		return
	}
	answer(w, http.StatusOK, map[string]any{"nodes": n.run})
}

// act puts a node into the state that it comes to.
func (n *node) act(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, action := r.PathValue("name"), r.PathValue("action")
	n.did = append(n.did, name+" "+action)
	for i := range n.run {
		if n.run[i].Name != name {
			continue
		}
		n.run[i].State = map[string]string{"kill": "down", "stop": "draining", "pause": "paused", "resume": "up", "restart": "up"}[action]
		n.run[i].Why = map[string]string{"kill": "signal: killed"}[action]
		answer(w, http.StatusAccepted, n.run[i])
		return
	}
	refuse(w, http.StatusConflict, "state", "there is no "+name)
}

// demo plays the sample in no time.
func (n *node) demo(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	for i, part := range strings.SplitAfter(web.SampleText(), " ") {
		n.push(id, part)
		if i%20 == 0 {
			n.checkpoint(id)
		}
	}
	n.end(id, "complete")
	answer(w, http.StatusAccepted, map[string]string{"streamId": id})
}

func (n *node) cancel(w http.ResponseWriter, r *http.Request) {
	n.end(r.PathValue("id"), "cancelled")
	answer(w, http.StatusAccepted, map[string]string{"status": "cancelled"})
}

// read serves events, a few units to a chunk.
func (n *node) read(w http.ResponseWriter, r *http.Request) {
	id, live := r.PathValue("id"), r.URL.Query().Get("plane") == "live"
	s, _, known := n.look(id)
	n.set(func(n *node) { n.reads = append(n.reads, r.Header) })
	if !known && !live {
		refuse(w, http.StatusNotFound, "not_found", "stream not found")
		return
	}
	resumed := r.Header.Get("Last-Event-ID")
	pos, epoch := position(resumed)
	if resumed == "" {
		pos, epoch = position(r.URL.Query().Get("from"))
	} else if s.ended != "" && pos >= s.durable {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := events{w: w, epoch: s.epoch}
	out.raw("retry: 50\n: ping\n")
	if !known {
		out.frame(-1, `{"type":"absent"}`)
		return
	}
	if epoch != 0 && epoch < s.epoch {
		pos = min(pos, s.began)
	}
	n.follow(r.Context(), id, min(pos, s.reach(live)), live, &out)
}

func (n *node) follow(ctx context.Context, id string, pos int, live bool, out *events) {
	s, changed, _ := n.look(id)
	name, _ := json.Marshal(id)
	out.frame(pos, `{"type":"open","streamId":%s,"from":%d,"seq":%d,"durableSeq":%d,"ended":%v}`,
		name, pos, s.reach(live), s.durable, s.ended != "")
	for durable := s.durable; ; s, changed, _ = n.look(id) {
		if s.epoch != out.epoch {
			return // the owner is gone
		}
		for pos < s.reach(live) {
			if n.broken(out.chunks, live) {
				if live && n.isStale(out.chunks) {
					out.frame(-1, `{"type":"stale","floorSeq":0,"durableSeq":%d}`, s.durable)
				}
				return
			}
			to := min(pos+7, s.reach(live))
			if utf16.IsSurrogate(rune(s.units[to-1])) && s.units[to-1] < 0xDC00 {
				to++
			}
			text, _ := json.Marshal(string(utf16.Decode(s.units[pos:to])))
			out.frame(to, `{"type":"chunk","from":%d,"seq":%d,"text":%s}`, pos, to, text)
			out.chunks++
			pos = to
		}
		if s.durable > durable {
			durable = s.durable
			out.frame(-1, `{"type":"durable","seq":%d}`, durable)
		}
		if s.ended != "" {
			out.frame(s.durable, `{"type":"end","seq":%d,"status":%q}`, s.durable, s.ended)
			return
		}
		out.raw(": ping\n")
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (n *node) broken(chunks int, live bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut > 0 && chunks >= n.cut || live && n.stale > 0 && chunks >= n.stale
}

func (n *node) isStale(chunks int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stale > 0 && chunks >= n.stale
}

func (n *node) look(id string) (s stream, changed <-chan struct{}, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.streams[id]; ok {
		return *s, s.changed, true
	}
	return stream{}, nil, false
}

// reach is how far a plane's text goes.
func (s stream) reach(live bool) int {
	if live {
		return len(s.units)
	}
	return s.durable
}

// position reads a resume point, N or N@E.
func position(s string) (pos, epoch int) {
	number, after, _ := strings.Cut(s, "@")
	pos, _ = strconv.Atoi(number)
	epoch, err := strconv.Atoi(after)
	if err != nil && s != "" {
		epoch = 1
	}
	return pos, epoch
}

// events writes one connection's events.
type events struct {
	w      http.ResponseWriter
	epoch  int
	chunks int
}

func (e *events) raw(s string) {
	_, _ = e.w.Write([]byte(s)) // the page may be gone
	_ = http.NewResponseController(e.w).Flush()
}

func (e *events) frame(id int, format string, args ...any) {
	at := ""
	switch {
	case id >= 0 && e.epoch > 1:
		at = fmt.Sprintf("id: %d@%d\n", id, e.epoch)
	case id >= 0:
		at = fmt.Sprintf("id: %d\n", id)
	}
	e.raw(at + "data: " + fmt.Sprintf(format, args...) + "\n\n")
}
