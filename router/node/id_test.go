package node_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// ids are good ones, with what is special in a path, in SQL and in HTML.
var ids = []string{
	"m1", "a/b", "/", "//", "/a/", "a/append", "a/../b", ".", "..", "...", "%", "%2F", "100%", "a b", " ", "+", "a+b",
	"?", "a?b=c", "#", "a#b", "&", "=", ";", ":", ":id", "*", "a*", "\\", "'", "''; --", `"`, "<b>", "_", "a%_b",
	"漢字", "é", "e\u0301", "😀", "\uFFFD", "@", "~", "$1", "null", "0", "-1", "open", "append",
	strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("😀", 64), strings.Repeat("/", 256),
}

func TestAnyPrintableTextOf256BytesNamesAStream(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		for _, id := range ids {
			opened, err := n.client.Open(t.Context(), id, wire.Open{})
			if err != nil || opened.StreamID != id {
				t.Errorf("open %q: %+v, %v", id, opened, err)
				continue
			}
			n.push(id, 0, id)
			n.seal(id)
		}
		check := func(n *running) {
			t.Helper()
			for _, id := range ids {
				if snap := n.snapshot(id); snap.StreamID != id || snap.Text != id {
					t.Errorf("%q is called %q and holds %q", id, snap.StreamID, snap.Text)
				}
				if text, r := n.text(id, ""); text != id || r.open.StreamID != id {
					t.Errorf("%q: read %q of %q", id, text, r.open.StreamID)
				}
			}
			var listed []string
			page, err := n.client.List(t.Context(), client.Query{})
			for ; err == nil; page, err = n.client.List(t.Context(), client.Query{After: page.Next}) {
				for _, s := range page.Streams {
					listed = append(listed, s.StreamID)
				}
				if page.Next == "" {
					break
				}
			}
			want := slices.Sorted(slices.Values(ids))
			if err != nil || !slices.Equal(listed, want) {
				t.Errorf("listed %d of %d in order of their bytes: %q, %v", len(listed), len(want), listed, err)
			}
		}
		check(n)
		check(n.restart())
	})
}

func TestWhatIsNoStreamIDIsRefused(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	for _, c := range []struct {
		target string // after /v1/streams/, or /demo/streams/
		status int
		code   string
	}{
		{"", 404, "no_route"},
		{strings.Repeat("x", 257), 400, "bad_request"},
		{strings.Repeat("%C3%A9", 128) + "x", 400, "bad_request"},
		{"a%00b", 400, "bad_request"},
		{"a%0Ab", 400, "bad_request"},
		{"a%0D%0Ab", 400, "bad_request"},
		{"%09", 400, "bad_request"},
		{"%1b[31m", 400, "bad_request"},
		{"%7F", 400, "bad_request"},
		{"%C2%85", 400, "bad_request"},
		{"%E2%80%A8", 400, "bad_request"}, // U+2028
		{"%E2%80%AE", 400, "bad_request"}, // right-to-left override
		{"%FF", 400, "bad_request"},
		{"%C3", 400, "bad_request"},
		{"%ED%A0%80", 400, "bad_request"},
		{"a/b", 404, "no_route"},
		{"a/append/b", 404, "no_route"},
		{"a/b%2Fc", 404, "no_route"},
	} {
		for _, route := range []string{"/v1/streams/", "/demo/streams/"} {
			a := n.do(http.MethodPost, route+c.target, "")
			wantError(t, route+c.target, a, c.status, c.code)
			if strings.Contains(a.body, "xxxx") || strings.Contains(a.body, "[31m") {
				t.Errorf("%q is quoted in %s", c.target, a.body)
			}
		}
	}
	for _, target := range []string{"/v1/streams/%zz", "/v1/streams/a%"} {
		s := n.dial()
		s.send("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", target)
		if head := s.head(); !strings.HasPrefix(head[0], "HTTP/1.1 400") {
			t.Errorf("%s: %s", target, head[0])
		}
	}
	if page, err := n.client.List(t.Context(), client.Query{}); err != nil || len(page.Streams) != 0 {
		t.Errorf("there are streams now: %+v, %v", page, err)
	}
}

func TestRoutesThatAreNotThereSaySo(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, c := range []struct {
		method, target string
		status         int
		code           string
	}{
		{"GET", "/v1", 404, "no_route"},
		{"GET", "/nothing", 404, "no_route"},
		{"POST", "/v1/streams/m1/seal", 404, "no_route"},
		{"GET", "/v1/streams/m1/append", 405, "method"},
		{"PUT", "/v1/streams/m1", 405, "method"},
		{"DELETE", "/v1/streams/m1", 405, "method"},
		{"POST", "/v1/streams", 405, "method"},
		{"POST", "/healthz", 405, "method"},
	} {
		wantError(t, c.method+" "+c.target, n.do(c.method, c.target, ""), c.status, c.code)
	}
	// What a client makes up does not become a label.
	for name := range n.metrics() {
		if strings.Contains(name, "nothing") || strings.Contains(name, "seal") && strings.Contains(name, "route") {
			t.Errorf("metric %s", name)
		}
	}
}
