package node_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/node"
)

// route is a call of the API; op is what it takes.
type route struct {
	name, method, action, query, body string
	header                            []string
	op                                auth.Op
}

var streamRoutes = []route{
	{name: "read", method: "GET", op: auth.Read},
	{name: "read live", method: "GET", query: "?plane=live", op: auth.Read},
	{name: "read durable", method: "GET", query: "?plane=durable&from=3", op: auth.Read},
	{name: "resume", method: "GET", header: []string{"Last-Event-ID", "6"}, op: auth.Read},
	{name: "snapshot", method: "GET", header: []string{"Accept", "application/json"}, op: auth.Read},
	{name: "bad read", method: "GET", query: "?plane=none&from=%zz", op: auth.Read},
	{name: "open", method: "POST", op: auth.Write},
	{name: "resume open", method: "POST", body: `{"resume":true}`, op: auth.Write},
	{name: "append", method: "POST", action: "append", query: "?from=100", body: `{"text":"x"}`, op: auth.Write},
	{name: "bad append", method: "POST", action: "append", query: "?from=x", body: `{`, op: auth.Write},
	{name: "pump", method: "POST", action: "pump", query: "?from=100", body: `{"text":"x"}`, op: auth.Write},
	{name: "flush", method: "POST", action: "flush", op: auth.Write},
	{name: "close", method: "POST", action: "close", op: auth.Write},
	{name: "fail", method: "POST", action: "fail", body: `{"error":"x"}`, op: auth.Write},
	{name: "generate", method: "POST", action: "generate", body: `{"upstream":"m","request":{}}`, op: auth.Write},
	{name: "cancel", method: "POST", action: "cancel", op: auth.Cancel},
}

func (r route) target(id string) string {
	if r.action == "" {
		return path(id) + r.query
	}
	return path(id, r.action) + r.query
}

// said is an answer as far as it may tell two streams apart.
func said(a answer) map[string]string {
	all := map[string]string{"status": fmt.Sprint(a.status), "body": a.body}
	for name, values := range a.header {
		if name != "Date" {
			all[name] = strings.Join(values, ",")
		}
	}
	return all
}

// denial is a token that does not do.
type denial struct {
	header []string
	status int       // of the answer
	allows []auth.Op // that it may do all the same, on the streams of user A
}

func denials(t *testing.T, k keys) map[string]denial {
	t.Helper()
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	all := []auth.Op{auth.Read, auth.Write, auth.Cancel}
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	grant := jwt.MapClaims{"ops": all, "streams": []string{"*"}, "exp": at(time.Hour)}
	with := func(changes jwt.MapClaims) jwt.MapClaims {
		c := maps.Clone(grant)
		maps.Copy(c, changes)
		return c
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, with(jwt.MapClaims{"aud": "rillkeep"})).
		SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]denial{
		"no token":         {nil, 401, nil},
		"empty token":      {bearer(""), 401, nil},
		"another scheme":   {[]string{"Authorization", "Basic YTpi"}, 401, nil},
		"garbage":          {bearer("garbage"), 401, nil},
		"half garbage":     {bearer("a.b.c"), 401, nil},
		"expired":          {bearer(k.sign(t, with(jwt.MapClaims{"exp": at(-time.Minute)}))), 401, nil},
		"not valid yet":    {bearer(k.sign(t, with(jwt.MapClaims{"nbf": at(time.Minute)}))), 401, nil},
		"no expiry":        {bearer(k.sign(t, jwt.MapClaims{"ops": all, "streams": []string{"*"}})), 401, nil},
		"another audience": {bearer(k.sign(t, with(jwt.MapClaims{"aud": "other"}))), 401, nil},
		"wrong key":        {bearer(newKeys(t).sign(t, maps.Clone(grant))), 401, nil},
		"unsigned":         {bearer(unsigned), 401, nil},
		"user B":           {bearer(k.token(t, auth.Claims{Ops: all, Streams: []string{"B/*", "A"}})), 403, nil},
		"A's reader": {
			bearer(k.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"A/*"}})), 403, []auth.Op{auth.Read},
		},
		"A's writer": {
			bearer(k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"A/*"}})), 403, []auth.Op{auth.Write},
		},
		"A's stop button": {
			bearer(k.token(t, auth.Claims{Ops: []auth.Op{auth.Cancel}, Streams: []string{"A/*"}})), 403, []auth.Op{auth.Cancel},
		},
		"admin":      {bearer(k.token(t, auth.Claims{Ops: []auth.Op{auth.Admin}})), 403, nil},
		"no grant":   {bearer(k.sign(t, with(jwt.MapClaims{"ops": []string{}}))), 403, nil},
		"unknown op": {bearer(k.sign(t, with(jwt.MapClaims{"ops": []string{"root", "READ", "*"}}))), 403, nil},
		"no stream":  {bearer(k.sign(t, with(jwt.MapClaims{"streams": []string{}}))), 403, nil},
	}
}

func TestADenialSaysNothing(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	n := openNode(t, node.Config{Keys: k.Keys, Linger: 50 * time.Millisecond})
	n.client = n.as(k.token(t, auth.Claims{Ops: []auth.Op{auth.Read, auth.Write}, Streams: []string{"*"}}))
	n.open("A/live")
	n.push("A/live", 0, "secret")
	n.whole("A/old", "secret")
	time.Sleep(100 * time.Millisecond) // it lingers no more
	n.whole("A/sealed", "secret")

	for name, d := range denials(t, k) {
		for _, r := range streamRoutes {
			if allowed := cmp.Diff(d.allows, []auth.Op{r.op}) == ""; allowed {
				continue
			}
			want := said(n.do(r.method, r.target("A/none"), r.body, append(r.header, d.header...)...))
			if want["status"] != fmt.Sprint(d.status) || strings.Contains(want["body"], "A/none") {
				t.Errorf("%s: %s: %v, want %d", name, r.name, want, d.status)
			}
			for _, id := range []string{"A/live", "A/sealed", "A/old"} {
				got := said(n.do(r.method, r.target(id), r.body, append(r.header, d.header...)...))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s: the answer shows that %s exists (-none +%s):\n%s", name, r.name, id, id, diff)
				}
			}
		}
		for _, target := range []string{"/v1/streams", "/v1/streams?prefix=A", "/metrics"} {
			a := n.do(http.MethodGet, target, "", d.header...)
			if want := d.status; name != "admin" && a.status != want || name == "admin" && a.status != 200 {
				t.Errorf("%s: GET %s: %d", name, target, a.status)
			}
		}
		for _, target := range []string{"/healthz", "/readyz", "/"} { // for everybody
			if a := n.do(http.MethodGet, target, "", d.header...); a.status != 200 {
				t.Errorf("%s: GET %s: %d", name, target, a.status)
			}
		}
	}
	if snap := n.snapshot("A/live"); snap.Text != "secret" || snap.Status != plane.StatusStreaming {
		t.Errorf("somebody reached it: %+v", snap)
	}
}

func TestAGrantIsForItsOperationsOnItsStreams(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	n := openNode(t, node.Config{Keys: k.Keys})
	token := func(op auth.Op) []string {
		return []string{"Authorization", "Bearer " + k.token(t, auth.Claims{Ops: []auth.Op{op}, Streams: []string{"A/*"}})}
	}
	for i, r := range streamRoutes {
		id := fmt.Sprint("A/", i)
		n.client = n.as(k.token(t, auth.Claims{Ops: []auth.Op{auth.Write, auth.Cancel}, Streams: []string{"*"}}))
		n.whole(id, "secret")
		if a := n.do(r.method, r.target(id), r.body, append(r.header, token(r.op)...)...); a.status == 401 || a.status == 403 {
			t.Errorf("%s: %d %s", r.name, a.status, a.body)
		}
	}
	a := n.do(http.MethodPost, "/demo/streams/A%2Fdemo", "", token(auth.Read)...)
	wantError(t, "demo by a reader", a, http.StatusForbidden, "forbidden")
}

func TestATokenMayComeAsACookieOrInTheQuery(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	n := openNode(t, node.Config{Keys: k.Keys})
	read := k.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"m1"}})
	n.client = n.as(k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"m1"}}))
	n.whole("m1", "text")
	for name, c := range map[string]struct {
		query  string
		header []string
	}{
		"bearer":       {"", []string{"Authorization", "Bearer " + read}},
		"cookie":       {"", []string{"Cookie", "other=1; rillkeep_token=" + read}},
		"query":        {"access_token=" + url.QueryEscape(read), nil},
		"query, other": {"from=0&access_token=" + url.QueryEscape(read), []string{"Authorization", "Basic YTpi"}},
	} {
		if text, _ := n.text("m1", c.query, c.header...); text != "text" {
			t.Errorf("%s: %q", name, text)
		}
		a := n.do(http.MethodPost, path("m1", "close")+"?"+c.query, "", c.header...)
		wantError(t, name, a, http.StatusForbidden, "forbidden")
	}
	// The first that is there counts, whatever the others are.
	a := n.do(http.MethodGet, path("m1")+"?access_token="+read, "", "Authorization", "Bearer garbage")
	wantError(t, "garbage first", a, http.StatusUnauthorized, "unauthorized")
}

func TestNoTokenAndNoTextGetsIntoLogsMetricsOrErrors(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	log := &record{}
	n := openNode(t, node.Config{Keys: k.Keys, Logger: log.logger(), Policy: impatient()})
	const canary, textCanary = "SECRET-CANARY-123", "TEXT-CANARY-456"
	admin := k.token(t, auth.Claims{Ops: []auth.Op{auth.Admin}})
	good := k.token(t, auth.Claims{Ops: []auth.Op{auth.Read, auth.Write, auth.Cancel}, Streams: []string{"*"}})
	n.client = n.as(good)
	n.open("live")
	n.push("live", 0, textCanary)
	n.whole("sealed", textCanary)
	var bodies strings.Builder
	note := func(a answer) {
		if a.status >= 400 {
			fmt.Fprintln(&bodies, a.header, a.body)
		}
	}
	for _, query := range []string{
		"token=" + canary, "access_token=" + canary, "access_token=" + good, "from=" + canary, "plane=" + canary,
		"access%5Ftoken=" + canary, "%zz" + canary, "a=1;access_token=" + canary, "from=0&access_token=" + canary + "%zz",
	} {
		for _, id := range []string{"live", "sealed", "absent"} {
			for _, r := range streamRoutes {
				if r.op == auth.Read && id == "live" && strings.Contains(query, good) {
					continue // it would not end
				}
				sep := "?"
				if r.query != "" {
					sep = "&"
				}
				if id != "live" || r.action != "close" && r.action != "fail" && r.action != "cancel" {
					note(n.do(r.method, r.target(id)+sep+query, r.body+textCanary, r.header...))
				}
			}
		}
		note(n.do(http.MethodGet, "/"+canary+"?"+query, ""))
		note(n.do(http.MethodGet, "/v1/streams?"+query, "", "Authorization", "Bearer "+canary))
		note(n.do("SECRET", "/v1/streams?"+query, "", "Cookie", "rillkeep_token="+canary))
	}
	release := n.block() // failing requests, too
	n.push("live", int64(len(textCanary)), textCanary)
	note(n.do(http.MethodPost, path("live", "flush"), "", "Authorization", "Bearer "+good))
	release()
	if a := n.do(http.MethodPost, path("live", "fail"), `{"error":"it broke"}`, "Authorization", "Bearer "+good); a.status != 200 {
		t.Fatal(a)
	}
	metrics := n.do(http.MethodGet, "/metrics", "", "Authorization", "Bearer "+admin)
	for what, text := range map[string]string{"log": log.String(), "metrics": metrics.body, "error bodies": bodies.String()} {
		for _, secret := range []string{canary, textCanary, good, admin, good[len(good)-20:]} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s: %s", what, text[max(0, at-300):min(len(text), at+len(secret)+100)])
			}
		}
		if len(text) < 1000 {
			t.Errorf("%s: only %q", what, text)
		}
	}
}

func TestAReadEndsWhenItsTokenDoes(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	n := openNode(t, node.Config{Keys: k.Keys, Limits: router.Limits{Recheck: time.Second}})
	n.client = n.as(k.token(t, auth.Claims{Ops: []auth.Op{auth.Write}, Streams: []string{"m1"}}))
	n.open("m1")
	n.push("m1", 0, "text")
	// Clocks may be 10 s apart: this one is good for six or seven seconds more.
	short := k.sign(t, jwt.MapClaims{"ops": []string{"read"}, "streams": []string{"m1"}, "exp": time.Now().Unix() - 3})
	long := k.token(t, auth.Claims{Ops: []auth.Op{auth.Read}, Streams: []string{"m1"}})
	stays := n.reads("m1", "", "Authorization", "Bearer "+long)
	end := make(map[string]*reader)
	for _, p := range []string{"auto", "live", "durable"} {
		end[p] = n.reads("m1", "plane="+p, "Authorization", "Bearer "+short)
		if err := end[p].until(4); p != "durable" && err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	for p, r := range end {
		if err := r.rest(); err == nil || r.end != nil {
			t.Errorf("%s: %v, %+v", p, err, r.end)
		}
	}
	wantError(t, "again", n.do(http.MethodGet, path("m1"), "", "Authorization", "Bearer "+short), http.StatusUnauthorized, "unauthorized")
	n.push("m1", 4, " goes on")
	if err := stays.until(12); err != nil {
		t.Error(err)
	}
	admin := []string{"Authorization", "Bearer " + k.token(t, auth.Claims{Ops: []auth.Op{auth.Admin}})}
	if m := n.metrics(admin...); m[`rillkeep_readers_closed_total{reason="denied"}`] != 3 || m["rillkeep_readers"] != 1 {
		t.Errorf("%v denied, %v read", m[`rillkeep_readers_closed_total{reason="denied"}`], m["rillkeep_readers"])
	}
}

func TestWithoutKeysANodeIsForItsOwnMachineOnly(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0"} {
		n, err := node.Open(t.Context(), node.Config{Listen: listen, Data: t.TempDir()})
		if err == nil {
			t.Errorf("%s: it listens", listen)
			_ = n.Close()
			continue
		}
		for _, word := range []string{"keys", "127.0.0.1", listen} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", listen, err, word)
			}
		}
	}
	n := openNode(t, node.Config{})
	n.open("m1")
	targets := []string{"/", "/healthz", "/metrics", "/v1/streams", "/v1/streams/m1?plane=live", "/nothing"}
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example:8080", "[2001:db8::1]"} {
		for _, target := range targets {
			wantError(t, host+target, n.do(http.MethodGet, target, "", "Host", host), http.StatusForbidden, "foreign")
		}
		wantError(t, host, n.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`, "Host", host), http.StatusForbidden, "foreign")
	}
	for _, host := range []string{"localhost", "localhost:1234", "127.0.0.1", "127.0.0.1:80", "[::1]:8080", "LOCALHOST"} {
		if a := n.do(http.MethodGet, path("m1"), "", "Host", host, "Accept", "application/json"); a.status != 200 {
			t.Errorf("%s: %d %s", host, a.status, a.body)
		}
	}
}

func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	token := k.token(t, auth.Claims{Ops: []auth.Op{auth.Read, auth.Write, auth.Cancel}, Streams: []string{"*"}})
	free, locked := openNode(t, node.Config{}), openNode(t, node.Config{Keys: k.Keys})
	locked.client = locked.as(token)
	for _, n := range []*running{free, locked} {
		n.open("m1")
		n.push("m1", 0, "text")
		cookie := []string{"Cookie", "rillkeep_token=" + token}
		for _, origin := range [][]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}, {"Origin", "http://127.0.0.1:1"},
			{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		} {
			for _, r := range streamRoutes {
				if r.method == "POST" {
					a := n.do(r.method, r.target("m1"), r.body, append(append(r.header, cookie...), origin...)...)
					wantError(t, fmt.Sprint(r.name, origin), a, http.StatusForbidden, "foreign")
				}
			}
			wantError(t, "demo", n.do(http.MethodPost, "/demo/streams/d", "", append(cookie, origin...)...), http.StatusForbidden, "foreign")
		}
		own := append(cookie, "Origin", n.URL(), "Sec-Fetch-Site", "same-origin")
		if a := n.do(http.MethodPost, path("m1", "append"), `{"text":"!"}`, own...); a.status != 200 {
			t.Errorf("own page: %d %s", a.status, a.body)
		}
	}
	// A token in the header was put there on purpose: no browser adds it by itself.
	a := locked.do(http.MethodPost, path("m1", "append"), `{"text":"!"}`, "Authorization", "Bearer "+token, "Origin", "https://app.example")
	if a.status != 200 {
		t.Errorf("another page with a token: %d %s", a.status, a.body)
	}
	// Nor is that a way around it where the header holds no token.
	for _, header := range []string{"Basic YTpi", "Bearer", "Bearer "} {
		a := locked.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`, "Authorization", header,
			"Cookie", "rillkeep_token="+token, "Origin", "https://evil.example")
		wantError(t, header, a, http.StatusForbidden, "foreign")
	}
	if snap, err := locked.client.Snapshot(context.WithoutCancel(t.Context()), "m1"); err != nil || snap.Text != "text!!" {
		t.Errorf("%q, %v", snap.Text, err)
	}
}
