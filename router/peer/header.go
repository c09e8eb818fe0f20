package peer

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Prefix begins the name of every header that members tell each other something
// by. Any header of that prefix that a request to [Client.Do] or an answer of a
// [Server]'s handler has travels signed.
const Prefix = "Rillkeep-Internal-"

// Headers of this package. They are set and taken off here; handlers and callers
// never see them.
const (
	headerCaller    = Prefix + "Caller"    // request: name of who asks
	headerTarget    = Prefix + "Target"    // request: name of who is asked
	headerHop       = Prefix + "Hop"       // request
	headerStamp     = Prefix + "Stamp"     // request: time, session, number
	headerHello     = Prefix + "Hello"     // request: only says hello
	headerNode      = Prefix + "Node"      // answer: name of who answers
	headerClock     = Prefix + "Clock"     // answer: milliseconds
	headerRefused   = Prefix + "Refused"   // answer: reason
	headerSignature = Prefix + "Signature" // both
)

var reserved = []string{
	headerCaller, headerTarget, headerHop, headerStamp, headerHello,
	headerNode, headerClock, headerRefused, headerSignature,
}

// hopByHop are the headers that concern one connection alone; HTTP/2 has no use
// for them.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Strip removes every internal header, however its name is written. A public
// listener uses it on what a client sends, before anything looks at it.
func Strip(h http.Header) {
	for name := range h {
		if internal(name) {
			delete(h, name)
		}
	}
}

// internal says whether a field's name is one of ours, in any case, with
// underscores for hyphens (some proxies make one of the other), or with blanks
// around it (some parsers cut them off).
func internal(name string) bool {
	if strings.HasPrefix(name, Prefix) {
		return true
	}
	if name == "" || 'A' <= name[0] && name[0] <= 'z' && name[0]|0x20 != 'r' {
		return false // nearly all names
	}
	return strings.HasPrefix(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-"), lowPrefix)
}

var lowPrefix = strings.ToLower(Prefix)

// travelling is what of h is fit to be sent to a peer: a copy without what
// concerns one connection alone, and with internal names in canonical form.
func travelling(h http.Header) http.Header {
	out := make(http.Header, len(h)+len(reserved))
	drop := hopByHop
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			drop = append(slices.Clip(drop), textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	for name, values := range h {
		if internal(name) || !slices.Contains(drop, name) {
			out[name] = values
		}
	}
	canonical(out)
	remove(out, reserved...)
	return out
}

// canonical brings internal names to the form that the receiver sees.
func canonical(h http.Header) {
	for name, values := range h {
		if !internal(name) {
			continue
		}
		if c := textproto.CanonicalMIMEHeaderKey(name); c != name {
			delete(h, name)
			h[c] = append(slices.Clip(h[c]), values...)
		}
	}
}

func remove(h http.Header, names ...string) {
	for _, name := range names {
		delete(h, name)
	}
}

// only gives the value of a field that must be there exactly once.
func only(h http.Header, name string) (string, bool) {
	if v := h[name]; len(v) == 1 {
		return v[0], true
	}
	return "", false
}
