package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// A producer's calls are refused with the same codes by every node, and nothing that was
// refused is there.
func TestAProducersCallsAreRefusedWithTheirCodes(t *testing.T) {
	t.Parallel()
	nodes := openCluster(t, 2, node.Config{Policy: patient()})
	for i, n := range nodes {
		id := fmt.Sprint("m", i)
		nodes[0].open(id)
		if _, err := nodes[1].client.Open(t.Context(), id, wire.Open{Resume: true}); err != nil { // it is 1.2 now
			t.Fatal(err)
		}
		nodes[0].push(id, 0, "text")
		calls := []struct{ route, body string }{
			{"append", `{"text":"GHOST"}`}, {"pump", `{"text":"GHOST"}`}, {"flush", ""}, {"close", ""}, {"fail", `{"error":"GHOST"}`}, {"keepalive", ""},
		}
		for _, c := range calls {
			for epoch, want := range map[string]struct {
				status int
				code   string
			}{
				"1.1": {http.StatusConflict, "fenced"},
				"1.x": {http.StatusBadRequest, "bad_request"},
				"":    {http.StatusBadRequest, "bad_request"},
			} {
				what := fmt.Sprintf("%s of %q", c.route, epoch)
				a := n.do(http.MethodPost, path(id, c.route)+"?from=4&epoch="+epoch, c.body)
				if line := lines(t, []byte(a.body)); c.route == "pump" && a.status == http.StatusOK && len(line) > 0 {
					a.status, a.body = want.status, line[len(line)-1] // it began, and says so in its last line
				}
				wantError(t, what, a, want.status, want.code)
			}
		}
		for _, c := range []struct {
			from int
			text string
			code string
			want int64
		}{{5, "x", "gap", 4}, {9, "x", "gap", 4}, {0, "teXt", "conflict", 4}, {2, "Xt and more", "conflict", 4}} {
			a := n.do(http.MethodPost, fmt.Sprintf("%s?from=%d&epoch=1.2", path(id, "append"), c.from), `{"text":"`+c.text+`"}`)
			wantError(t, fmt.Sprint(c.text, " at ", c.from), a, http.StatusConflict, c.code)
			if e := a.err(); e.Want == nil || *e.Want != c.want {
				t.Errorf("%s at %d: %s", c.text, c.from, a.body)
			}
		}
		// What is taken is acknowledged by what was received and what is durable.
		for _, c := range []struct{ target, body, want string }{
			{"append?from=0&epoch=1.2", `{"text":"text"}`, `{"seq":4,"durableSeq":0}`},
			{"append?from=2&epoch=1.2", `{"text":"xt😀"}`, `{"seq":6,"durableSeq":0}`},
			{"keepalive?epoch=1.2", "", `{"seq":6,"durableSeq":0}`},
			{"flush?epoch=1.2", "", `{"seq":6,"durableSeq":6}`},
			{"pump?from=6&epoch=1.2", `{"text":"!"}`, `{"seq":7,"durableSeq":6,"done":true}`},
			{"close?epoch=1.2", "", `{"status":"complete","seq":7,"durableSeq":7}`},
			{"close?epoch=1.2", "", `{"status":"complete","seq":7,"durableSeq":7}`},
			{"flush?epoch=1.2", "", `{"seq":7,"durableSeq":7}`},
			{"cancel", "", `{"status":"complete","seq":7,"durableSeq":7}`},
		} {
			if a := n.do(http.MethodPost, path(id)+"/"+c.target, c.body); a.status/100 != 2 || !strings.HasSuffix(a.body, c.want+"\n") {
				t.Errorf("%s: %d %s", c.target, a.status, a.body)
			}
		}
		for _, c := range []string{"append", "pump", "keepalive"} {
			wantError(t, c+" after the end", n.do(http.MethodPost, path(id, c), `{"text":"x"}`), http.StatusConflict, "closed")
		}
		wantEnding(t, n, id, plane.StatusComplete, "text😀!")
	}
}
