package clustertest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/wire"
)

const signing = "thirty-two-bytes-or-more-of-a-signing-key"

// Reports 83, cross-user, and 84, token-in-url.
func TestAReaderIsAuthorizedWhereItAsksBeforeAnythingIsLookedUp(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(file, []byte(signing), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.ParseKeys(signing)
	if err != nil {
		t.Fatal(err)
	}
	mint := func(stream string, ops ...auth.Op) string {
		token, err := keys.Mint(auth.Claims{Ops: ops, Streams: []string{stream}, Audience: "rillkeep", Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	c := assemble(t, 2, "--keys", file, "--log-level", "debug")
	for _, n := range c.nodes {
		n.start()
	}
	all := mint("*", auth.Read, auth.Write, auth.Cancel, auth.Admin)
	for _, n := range c.nodes {
		n.token(all)
	}
	c.settle()
	_, cl := c.nodes[0].place()
	for _, id := range []string{"alice-live", "alice-over"} {
		if _, err := cl.Open(t.Context(), id, wire.Open{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.Append(t.Context(), id, 0, "of nobody else's concern"); err != nil {
			t.Fatal(err)
		}
	}
	owner := c.hosts()["alice-live"]
	if _, err := cl.Close(t.Context(), "alice-over", wire.Close{}); err != nil {
		t.Fatal(err)
	}
	bob, reads := mint("bob-*", auth.Read, auth.Write, auth.Cancel), mint("alice-*", auth.Read)
	stranger := strings.Repeat("x", 20) + "-CANARY-123"
	asked := map[*node]float64{}
	for _, n := range c.nodes {
		asked[n] = n.metric("rillkeep_relay_attaches_total") + n.metric("rillkeep_forwarded_total")
		for _, token := range []string{bob, reads, stranger} {
			for _, call := range []struct{ method, route string }{
				{http.MethodGet, ""}, {http.MethodGet, "?plane=live"}, {http.MethodPost, ""}, {http.MethodPost, "/append"},
				{http.MethodPost, "/flush"}, {http.MethodPost, "/close"}, {http.MethodPost, "/cancel"}, {http.MethodPost, "/pump"},
			} {
				if token == reads && call.method == http.MethodGet {
					continue
				}
				var first answer
				for i, id := range []string{"alice-live", "alice-over", "alice-none"} {
					a := n.ask(call.method, "/v1/streams/"+id+call.route, "", "Authorization", "Bearer "+token)
					if i == 0 {
						first = a
					}
					if a.status != http.StatusForbidden && a.status != http.StatusUnauthorized || a.status != first.status || a.body != first.body {
						t.Errorf("%s: %s %s%s: %d %s; of the first %d %s", n.name, call.method, id, call.route, a.status, a.body, first.status, first.body)
					}
				}
			}
		}
		if n.metric("rillkeep_relay_attaches_total")+n.metric("rillkeep_forwarded_total") != asked[n] {
			t.Errorf("%s asked others on behalf of who may not ask", n.name)
		}
		// A token in the URL is as good, and goes nowhere: not even to the owner.
		target := "/v1/streams/alice-live"
		if a := n.ask(http.MethodGet, target+"?access_token="+reads, "", "Accept", "application/json"); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", n.name, a.status, a.body)
		}
		if a := n.ask(http.MethodPost, target+"/append?from=24&access_token="+all, `{"text":""}`, "Content-Type", "application/json"); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", n.name, a.status, a.body)
		}
		if a := n.ask(http.MethodGet, target+"?access_token="+stranger, ""); a.status != http.StatusUnauthorized || strings.Contains(a.body, "CANARY") {
			t.Errorf("%s: %d %s", n.name, a.status, a.body)
		}
	}
	if snap := owner.snapshot("alice-live"); snap.Status != "streaming" || snap.Text != "of nobody else's concern" {
		t.Errorf("it is %+v", snap)
	}
	for _, n := range c.nodes {
		said := n.run().Err.String()
		for _, token := range []string{bob, reads, all, "CANARY"} {
			if strings.Contains(said, token) {
				t.Errorf("%s logged a token", n.name)
			}
		}
	}
}

// token gives the node's client one.
func (n *node) token(token string) {
	n.c.Helper()
	cl, err := client.New(client.Config{Server: n.url(), HTTP: n.c.calls, Token: token})
	if err != nil {
		n.c.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.client, n.header = cl, []string{"Authorization", "Bearer " + token}
}
