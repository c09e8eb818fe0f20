package router

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// maxReplay is the longest body, in bytes, of a request that Fly.io's proxy sends
// elsewhere: it keeps no more.
const maxReplay = 1_000_000

// flyReplay asks the proxy at the edge to send the request to another machine
// itself. See https://fly.io/docs/networking/dynamic-request-routing/.
func flyReplay(c echo.Context, machine string) error {
	c.Response().Header().Set("Fly-Replay", "instance="+machine)
	return c.NoContent(http.StatusConflict)
}

// mayReplay reports whether the edge may be asked to send a request elsewhere: not
// when it has sent it here because another node asked for that, nor when it did not
// keep the body.
func mayReplay(req *http.Request, body int) bool {
	h := req.Header
	return h.Get("Fly-Replay-Src") == "" && h.Get("Fly-Replay-Failed") == "" && req.ContentLength >= 0 && body <= maxReplay
}

// machineOf is the machine that a member runs on, whose name is its node's. One that
// no machine has is none to be asked for, and would say more in a header than that.
func machineOf(member string) (string, bool) {
	node, _, _ := strings.Cut(member, "/")
	return node, IsMachine(node)
}

// IsMachine reports whether a node's name can be that of a machine of Fly.io's.
func IsMachine(node string) bool {
	return node != "" && !strings.ContainsFunc(node, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
}
