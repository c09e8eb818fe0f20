package node_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// startedLater opens a node that does not find its database, mends that, and
// returns the node once it serves. Nothing it says shows a password.
func startedLater(t *testing.T, cfg node.Config, mend func()) *running {
	t.Helper()
	log := &record{}
	cfg.Listen, cfg.Name, cfg.Logger = pgtest.FreeAddress(t), "n1", log.logger()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	n := &running{tb: t, cfg: cfg, http: http.DefaultClient}
	var err error
	var opening sync.WaitGroup
	opening.Go(func() { n.Node, err = node.Open(ctx, cfg) })
	get := func(method, path string) answer { return ask(t, method, "http://"+cfg.Listen+path) }
	await(t, "it lives", func() bool { return get(http.MethodGet, "/healthz").status == http.StatusOK })
	await(t, "it says why it is not ready", func() bool { return strings.Contains(log.String(), "cannot reach the database") })
	if a := get(http.MethodGet, "/readyz"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "store is not reachable") {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	for path, method := range map[string]string{"/v1/streams/m1": http.MethodPost, "/v1/streams/m2": http.MethodGet, "/metrics": http.MethodGet, "/": http.MethodGet} {
		a := get(method, path)
		wantError(t, method+" "+path, a, http.StatusServiceUnavailable, "unavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	mend()
	opening.Wait()
	if err != nil {
		t.Fatal(err)
	}
	n.client = n.as("")
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), password) {
			t.Errorf("the log shows the password: %s", log)
		}
	})
	if a := n.do(http.MethodGet, "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	n.whole("m1", "all ", "of it")
	return n
}

const password = "hush-this-one"

// ask makes a request of a node that may not be there: then the answer is none.
func ask(t *testing.T, method, url string) (a answer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func TestANodeWaitsForADatabaseThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	database, err := server.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Stop() })
	if err := database.Down(server.Fast); err != nil {
		t.Fatal(err)
	}
	startedLater(t, node.Config{Database: database.URL()}, func() {
		if err := database.Up(); err != nil {
			t.Error(err)
		}
	})
}

func TestANodeWaitsForThePasswordToBeRight(t *testing.T) {
	t.Parallel()
	server, right := pgtest.Secured(t, "app", "another-one")
	u, err := url.Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("app", password)
	startedLater(t, node.Config{Database: u.String()}, func() {
		pgtest.Exec(t, server.URL(), "ALTER ROLE app PASSWORD '"+password+"'")
	})
}

func TestANodeThatIsToldToStopDoesNotWait(t *testing.T) {
	t.Parallel()
	server, right := pgtest.Secured(t, "app", password)
	other, _ := pgtest.Certificate(t)
	stranger := filepath.Join(pgtest.Folder(t, map[string]string{"ca": other}), "ca")
	u, err := url.Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ url, want string }{
		"nobody there":      {"postgres://app:" + password + "@127.0.0.1:1/x", "connection refused"},
		"no such host":      {"postgres://app:" + password + "@no-such-host.invalid/x", "no-such-host.invalid"},
		"no such database":  {strings.Replace(right, "/app?", "/none?", 1), "3D000"},
		"no such password":  {strings.Replace(right, password, "not-"+password, 1), "28P01"},
		"another authority": {strings.Replace(right, url.QueryEscape(u.Query().Get("sslrootcert")), url.QueryEscape(stranger), 1), "unknown authority"},
		"no way in":         {server.URL() + "&user=nobody&password=" + password, "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			log := &record{}
			cfg := node.Config{Listen: pgtest.FreeAddress(t), Database: tt.url, Logger: log.logger()}
			var err error
			var opening sync.WaitGroup
			opening.Go(func() { _, err = node.Open(ctx, cfg) })
			await(t, "it tries again", func() bool { return strings.Count(log.String(), "trying again") > 1 })
			cancel()
			opening.Wait()
			if said := log.String(); !errors.Is(err, context.Canceled) || !strings.Contains(said, tt.want) || strings.Contains(err.Error()+said, password) {
				t.Errorf("got %v, logged %s", err, said)
			}
			if a := ask(t, http.MethodGet, "http://"+cfg.Listen+"/healthz"); a.status != 0 {
				t.Errorf("it still answers %d", a.status)
			}
		})
	}
}

func TestWhatCannotBeMendedWhileANodeWaitsIsRefused(t *testing.T) {
	t.Parallel()
	newer := pgtest.URL(t)
	openNode(t, node.Config{Database: newer})
	pgtest.Exec(t, newer, "INSERT INTO rillkeep.versions VALUES (99)")
	for name, tt := range map[string]struct {
		cfg  node.Config
		want string
	}{
		"no URL":              {node.Config{Database: "postgres://u:" + password + "@h:port/x"}, "invalid port"},
		"no PostgreSQL":       {node.Config{Database: "mysql://u:" + password + "@h/x"}, "postgres:// URL"},
		"no authority":        {node.Config{Database: "postgres://u:" + password + "@h/x?sslmode=verify-full&sslrootcert=/nowhere"}, "no such file"},
		"a newer schema":      {node.Config{Database: newer, Name: "n2"}, "newer release"},
		"a pooler alone":      {node.Config{Database: pgtest.Bouncer(t, pgtest.URL(t))}, "direct URL"},
		"a damaged way":       {node.Config{Database: pgtest.URL(t), DirectDatabase: "postgres://u:" + password + "@h:port/x"}, "direct URL"},
		"a way to no pooler":  {node.Config{DirectDatabase: newer}, "without a database"},
		"a name with a slash": {node.Config{Database: pgtest.URL(t), Name: "a/b"}, "slash"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		tt.cfg.Listen = "127.0.0.1:0"
		if _, err := node.Open(ctx, tt.cfg); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestANodeWorksByWayOfAPooler(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	n := openNode(t, node.Config{Database: pgtest.Bouncer(t, url), DirectDatabase: url})
	n.open("m1")
	n.push("m1", 0, "durable ")
	n.flush("m1")
	n.push("m1", 8, "and the rest 😀")
	n.seal("m1")
	wantEnding(t, n, "m1", plane.StatusComplete, "durable and the rest 😀")
	if row := n.rowOf("m1"); row.Status != plane.StatusComplete {
		t.Errorf("listed: %+v", row)
	}
	n = n.restart()
	wantEnding(t, n, "m1", plane.StatusComplete, "durable and the rest 😀")
}

// However slow the database is: to serve without the name would be to be taken
// for an earlier run of the other.
func TestANodeWhoseNameIsInUseDoesNotServeOnASlowDatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	openNode(t, node.Config{Database: database, Name: "n1"})
	p := pgtest.NewProxy(t, database)
	p.Delay(1200 * time.Millisecond)
	second, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Database: p.URL(), Name: "n1"})
	if err == nil {
		_ = second.Close()
	}
	if !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("got %v", err)
	}
}

func TestANodeIsNotReadyWithoutItsName(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := pgtest.NewProxy(t, database)
	off := p.On(pgtest.Words("pg_advisory_lock("), pgtest.CutBefore)
	log := &record{}
	cfg := node.Config{Listen: pgtest.FreeAddress(t), Database: p.URL(), Name: "n1", Logger: log.logger()}
	var n *node.Node
	var err error
	var opening sync.WaitGroup
	opening.Go(func() { n, err = node.Open(t.Context(), cfg) })
	await(t, "it has tried for longer than orphans are waited for", func() bool {
		return strings.Count(log.String(), "cannot take the node's name") > 4
	})
	if a := ask(t, http.MethodGet, "http://"+cfg.Listen+"/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	off()
	opening.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
