package router

import (
	"encoding/json"
	"net/http"
	"time"

	"rillkeep.dev/rillkeep/router/wire"
)

// Starting answers for a node that has not reached its store yet: it lives, is
// not ready, and can serve nothing else now.
func Starting(w http.ResponseWriter, req *http.Request) {
	notReady(w, req, wire.ErrUnavailable, "store is not reachable")
}

// Crowded answers for a node that has no room for the client's connection, and ends
// that.
func Crowded(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Connection", "close")
	notReady(w, req, wire.Detail(wire.ErrUnavailable, "the node has no room for another connection; try again, or another node"), "too many connections")
}

func notReady(w http.ResponseWriter, req *http.Request, why error, reason string) {
	status, body := http.StatusServiceUnavailable, any(wire.ErrorBody{Error: wire.FromError(why)})
	switch req.URL.Path {
	case "/healthz":
		status, body = http.StatusOK, map[string]string{"status": "ok"}
	case "/readyz":
		body = map[string]string{"status": "not ready", "reason": reason}
	}
	if status != http.StatusOK {
		w.Header().Set("Retry-After", retryAfter)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(refusalTime))
	if req.ContentLength != 0 && req.ProtoMajor == 1 { // the answer waits for no body, and the connection not for long
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_ = control.SetReadDeadline(time.Now().Add(lastWord))
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}
