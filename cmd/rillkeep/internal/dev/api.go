package dev

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/wire"
)

// handler serves /dev/ itself and leads all else to the nodes. A ServeMux for the
// whole would tidy paths up, in which a stream may be called "..".
func (c *Cluster) handler() http.Handler {
	front := newFront(c.nodes)
	own := http.NewServeMux()
	own.HandleFunc("GET /dev/nodes", c.list)
	own.HandleFunc("POST /dev/nodes/{name}/{action}", c.act)
	own.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, wire.ErrNoRoute) })
	guarded := sameSite(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/dev/") {
			guarded.ServeHTTP(w, r)
			return
		}
		front.ServeHTTP(w, r)
	})
}

// sameSite refuses what a page of another site makes a browser send.
func sameSite(next http.Handler) http.Handler {
	var cross http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !auth.LocalHost(r.Host):
			refuse(w, wire.Detail(wire.ErrForeign, "these nodes are run from localhost, not from this host name"))
		case cross.Check(r) != nil:
			refuse(w, wire.Detail(wire.ErrForeign, "the request comes from a page of another site"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (c *Cluster) list(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, struct {
		Nodes []Node `json:"nodes"`
	}{c.Nodes()})
}

// act does something to a node, and answers what it is then: of all but a kill that
// is before it has come to its end.
func (c *Cluster) act(w http.ResponseWriter, r *http.Request) {
	for _, p := range c.nodes {
		if p.name != r.PathValue("name") {
			continue
		}
		do, ok := map[string]func() error{
			"kill": func() error { return p.killed(r.Context()) }, "stop": p.stop, "restart": p.restart, "pause": p.pause, "resume": p.resume,
		}[r.PathValue("action")]
		if !ok {
			refuse(w, wire.Detail(wire.ErrNoRoute, "a node can be told to kill, stop, pause, resume or restart"))
			return
		}
		if err := do(); err != nil {
			refuse(w, err)
			return
		}
		reply(w, http.StatusAccepted, p.now())
		return
	}
	refuse(w, wire.Detail(wire.ErrNoRoute, "no such node; GET /dev/nodes lists them"))
}

// refuse answers an error as the nodes do.
func refuse(w http.ResponseWriter, err error) {
	said := wire.FromError(err)
	if errors.Is(err, ErrState) {
		said = &wire.Error{Status: http.StatusConflict, Code: "state", Message: err.Error()}
	}
	if said.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	reply(w, said.Status, wire.ErrorBody{Error: said})
}

func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // all that is answered are plain structs
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
