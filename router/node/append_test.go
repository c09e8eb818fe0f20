package node_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

func TestAnAppendIsJSONOrPlainText(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, c := range []struct {
		kind, body string
		want       string // text, "" for a refusal
		status     int
		code       string
	}{
		{kind: "application/json", body: `{"text":"a"}`, want: "a"},
		{kind: "application/json; charset=utf-8", body: ` {"text":"b","more":[1]} `, want: "b"},
		{kind: "", body: `{"text":"c"}`, want: "c"},
		{kind: "text/plain", body: "{d}", want: "{d}"},
		{kind: "Text/Plain;charset=\"UTF-8\"", body: "e", want: "e"},
		{kind: "application/json", body: `{"text":""}`, want: ""},
		{kind: "text/plain", body: "", want: ""},
		{kind: "text/plain; charset=iso-8859-1", body: "x", status: 415, code: "unsupported_media_type"},
		{kind: "application/x-www-form-urlencoded", body: "text=x", status: 415, code: "unsupported_media_type"},
		{kind: "application/octet-stream", body: "x", status: 415, code: "unsupported_media_type"},
		{kind: "application/x-ndjson", body: `{"text":"x"}`, status: 415, code: "unsupported_media_type"},
		{kind: "text", body: "x", status: 415, code: "unsupported_media_type"},
		{kind: "application/json", body: ``, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{"text":"torn`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{"text":"x"}{"text":"y"}`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{"text":7}`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{"text":null}`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{}`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `"x"`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `null`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `[]`, status: 400, code: "bad_request"},
		{kind: "application/json", body: `{"text":"\ud83"}`, status: 400, code: "bad_request"},
	} {
		before := n.snapshot("m1").Text
		header := []string{"Content-Type", c.kind}
		if c.kind == "" {
			header = nil
		}
		a := n.do(http.MethodPost, path("m1", "append"), c.body, header...)
		if c.status != 0 {
			wantError(t, fmt.Sprintf("%s %q", c.kind, c.body), a, c.status, c.code)
		} else if a.status != http.StatusOK {
			t.Errorf("%s %q: %d %s", c.kind, c.body, a.status, a.body)
		}
		if got := n.snapshot("m1").Text; got != before+c.want {
			t.Errorf("%s %q: the text is %q, want %q", c.kind, c.body, got, before+c.want)
		}
	}
}

func TestABodyOverTheBoundLosesNothing(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]node.Config{"default": {}, "small": {Limits: router.Limits{AppendBytes: 100}}} {
		bound := 1 << 20
		if name == "small" {
			bound = 100
		}
		n := openNode(t, cfg)
		n.open("m1")
		n.push("m1", 0, "before")
		for _, size := range []int{bound + 1, bound + 300_000} {
			body := strings.Repeat("x", size)
			wantError(t, name, n.do(http.MethodPost, path("m1", "append"), body, "Content-Type", "text/plain"),
				http.StatusRequestEntityTooLarge, "too_large")
		}
		if a := n.do(http.MethodPost, path("m1", "append"), strings.Repeat("x", bound), "Content-Type", "text/plain"); a.status != http.StatusOK {
			t.Errorf("%s: a body of the bound: %d %.200s", name, a.status, a.body)
		}
		n.push("m1", int64(6+bound), "after")
		n.seal("m1")
		if got := n.snapshot("m1").Text; got != "before"+strings.Repeat("x", bound)+"after" {
			t.Errorf("%s: %d bytes of text", name, len(got))
		}
	}
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, action := range []string{"close", "fail"} {
		body := `{"error":"` + strings.Repeat("x", 64<<10) + `"}`
		wantError(t, action, n.do(http.MethodPost, path("m1", action), body), http.StatusRequestEntityTooLarge, "too_large")
	}
	wantError(t, "open", n.do(http.MethodPost, path("m2"), `{"meta":"`+strings.Repeat("x", 64<<10)+`"}`),
		http.StatusRequestEntityTooLarge, "too_large")
}

func TestAStreamOverItsBoundIsRefused(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.MaxUnits = 10
	n := openNode(t, node.Config{Policy: policy})
	n.open("m1")
	n.push("m1", 0, "12345678")
	wantError(t, "append", n.do(http.MethodPost, path("m1", "append"), "9ab", "Content-Type", "text/plain"),
		http.StatusRequestEntityTooLarge, "too_long")
	n.push("m1", 8, "90")
	n.seal("m1")
	if got := n.snapshot("m1").Text; got != "1234567890" {
		t.Errorf("got %q", got)
	}
}

func TestAnAppendGoesWhereItsOffsetSays(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "Hello")
		at := func(query, text string) answer {
			return n.do(http.MethodPost, path("m1", "append")+"?"+query, text, "Content-Type", "text/plain")
		}
		wantRefused := func(from, text, code string) {
			t.Helper()
			a := at("from="+from, text)
			wantError(t, from, a, http.StatusConflict, code)
			if want := a.err().Want; want == nil || *want != 5 {
				t.Errorf("%s at %s says no want: %s", code, from, a.body)
			}
		}
		for _, query := range []string{
			"from=", "from=-1", "from=abc", "from=1.5", "from=1e3", "from=0x5", "from=5@1",
			"from=99999999999999999999", "from=%2", "from=5;x", "%zz",
		} {
			wantError(t, query, at(query, "x"), http.StatusBadRequest, "bad_request")
		}
		wantRefused("6", "x", "gap")
		wantRefused("100", "x", "gap")
		wantRefused("9007199254740993", "", "gap")
		wantRefused("0", "hello", "conflict")
		wantRefused("4", "O", "conflict")
		wantRefused("2", "llx", "conflict")
		wantRefused("0", "Hellish world", "conflict")
		for _, c := range []struct{ query, text string }{
			{"from=0", "Hello"}, {"from=0", "Hel"}, {"from=3", "lo"}, {"from=5", ""},
			{"from=4", "o wor"}, {"from=9", "ld"}, {"from=0", "Hello world"}, {"", "!"},
		} {
			if a := at(c.query, c.text); a.status != http.StatusOK {
				t.Errorf("append %q with %q: %d %s", c.text, c.query, a.status, a.body)
			}
		}
		n.seal("m1")
		everywhere(t, n, "m1", "Hello world!")
	})
}

func TestARepeatedAppendIsAbsorbed(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		n.push("m1", 0, "Hello")
		const delta = `{"text":" 😀 world"}`
		s := n.dial() // its answer is dropped
		s.send("POST /v1/streams/m1/append?from=5 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(delta), delta)
		await(t, "the delta is applied", func() bool { return n.snapshot("m1").Seq == 14 })
		_ = s.conn.Close()

		n.http.CloseIdleConnections()
		again := func() {
			t.Helper()
			a := n.do(http.MethodPost, path("m1", "append")+"?from=5", delta)
			if ack := decode[wire.Ack](t, a); a.status != http.StatusOK || ack.Seq != 14 {
				t.Errorf("repeated: %d %s", a.status, a.body)
			}
		}
		again()
		a := n.do(http.MethodPost, path("m1", "append")+"?from=5", `{"text":" OTHER"}`)
		wantError(t, "other text", a, http.StatusConflict, "conflict")
		if want := a.err().Want; want == nil || *want != 14 {
			t.Errorf("other text: %s", a.body)
		}
		again()
		n.push("m1", 14, "!")
		n.seal("m1")
		everywhere(t, n, "m1", "Hello 😀 world!")
	})
}

func TestATornBodyLeavesNoPartOfADelta(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, action, want string }{
		{"torn-length.http", "append", ""},
		{"torn-chunk.http", "append", ""},
		{"torn-lines.http", "pump", "one two "}, // whole lines count singly
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			n := openNode(t, node.Config{})
			n.open("m1")
			r := n.reads("m1", "")
			s := n.dial()
			request := testFile(t, c.file)
			for name, value := range map[string]string{
				"{{HOST}}": "127.0.0.1", "{{APPEND_PATH}}": path("m1", c.action), "Authorization: {{AUTH}}\r\n": "",
			} {
				request = bytes.ReplaceAll(request, []byte(name), []byte(value))
			}
			s.send("%s", request)
			pos := plane.Units(c.want)
			if err := r.until(pos); err != nil {
				t.Fatal(err)
			}
			s.reset()
			await(t, "the request is over", func() bool {
				for name, count := range n.metrics() {
					if strings.Contains(name, "/"+c.action) && count > 0 {
						return true
					}
				}
				return false
			})
			if snap := n.snapshot("m1"); snap.Text != c.want || snap.Seq != pos {
				t.Errorf("after the cut: %q to %d", snap.Text, snap.Seq)
			}
			n.push("m1", pos, "whole") // the producer's position has not moved
			n.seal("m1")
			if got := n.snapshot("m1").Text; got != c.want+"whole" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestAppendsToWhatIsNotStreamingAreRefused(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.whole("sealed", "text")
		n.open("orphan")
		all := func(id string) map[string]answer {
			return map[string]answer{
				"append":         n.do(http.MethodPost, path(id, "append"), `{"text":"GHOST"}`),
				"append at 0":    n.do(http.MethodPost, path(id, "append")+"?from=0", `{"text":"text"}`),
				"append nothing": n.do(http.MethodPost, path(id, "append"), `{"text":""}`),
				"pump":           n.do(http.MethodPost, path(id, "pump"), "GHOST", "Content-Type", "text/plain"),
			}
		}
		for what, a := range all("unknown") {
			wantError(t, what+" to unknown", a, http.StatusNotFound, "not_found")
		}
		for what, a := range all("sealed") {
			if what == "append nothing" && a.status == http.StatusOK {
				continue
			}
			wantError(t, what+" to sealed", a, http.StatusConflict, "closed")
		}
		n = n.restartBriefly()
		for what, a := range all("orphan") {
			wantError(t, what+" to an orphan", a, http.StatusServiceUnavailable, "unavailable")
		}
		n.swept("orphan")
		for _, id := range []string{"sealed", "orphan"} {
			for what, a := range all(id) {
				wantError(t, what+" to "+id+" after a restart", a, http.StatusConflict, "closed")
			}
		}
		if got := n.snapshot("sealed").Text; got != "text" {
			t.Errorf("got %q", got)
		}
	})
}
