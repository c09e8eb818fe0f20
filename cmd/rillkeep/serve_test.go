package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestServePrintsItsAddressAndCommandsThatWork(t *testing.T) {
	t.Parallel()
	p, url := serve(t)
	var lines []string
	for line := range strings.Lines(p.Out.String()) {
		if rest, ok := strings.CutPrefix(line, "  "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	if len(lines) != 3 || !strings.Contains(p.Out.String(), "or open "+url+"/ in a browser.") {
		t.Fatalf("printed %q", p.Out)
	}
	push := shell(t, lines[0])
	if code := push.Ended(t); code != 0 || push.Out.String() != "" || push.Err.String() != "" {
		t.Errorf("%s: exit %d", lines[0], code)
	}
	tail := shell(t, lines[1])
	if code := tail.Ended(t); code != 0 || tail.Out.String() != "Hello, stream." {
		t.Errorf("%s: exit %d, %q", lines[1], code, tail.Out)
	}
	curl := regexp.MustCompile(`^curl -N '(http://[^']+)'$`).FindStringSubmatch(lines[2])
	if curl == nil {
		t.Fatalf("the third command is %s", lines[2])
	}
	for _, at := range []struct{ url, want string }{{curl[1], `"text":"Hello, stream."`}, {url + "/", "<html"}, {url + "/readyz", ""}} {
		resp, err := http.Get(at.url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), at.want) {
			t.Errorf("GET %s: %s, %q, %v", at.url, resp.Status, body, err)
		}
	}
}

func TestServeWithKeysTellsOfTokens(t *testing.T) {
	t.Parallel()
	keys := keysFile(t, secret)
	p, url := serve(t, "--keys", keys, "--listen", "0.0.0.0:0")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.Contains(p.Out.String(), "RILLKEEP_TOKEN") ||
		!strings.Contains(p.Out.String(), `curl -N -H "Authorization: Bearer $RILLKEEP_TOKEN" '`+url) {
		t.Errorf("printed %q", p.Out)
	}
	if got := at(t, url, strings.NewReader("text"), "push", "m1"); got.code != exitDenied {
		t.Errorf("push without a token: %+v", got)
	}
	token := mint(t, secret, "--ops", "write,read")
	at(t, url, strings.NewReader("text"), "push", "m1", "--token", token).want(t, 0, "", "")
	if strings.Contains(p.Out.String()+p.Err.String(), secret) || strings.Contains(p.Err.String(), token) {
		t.Error("a secret was printed")
	}
}

func TestServeDrainsWhenItIsToldToStop(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, url := serve(t, "--data", data, "--drain", "10m") // which is not waited for
	text := strings.Repeat("all of this was said 😀. ", 100)
	push := launch(t, "push", "m1", "--server", url)
	if _, err := io.WriteString(push.In, text); err != nil {
		t.Fatal(err)
	}
	waitText(t, url, "m1", text)
	tail := launch(t, "tail", "m1", "--server", url)
	tail.Printed(t, text)
	p.Signal(t, syscall.SIGTERM)
	if code := p.Ended(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if code := tail.Ended(t); code != exitInterrupted || tail.Out.String() != text {
		t.Errorf("the reader: exit %d, %d bytes of %d", code, len(tail.Out.String()), len(text))
	}
	if code := push.Ended(t); code == 0 {
		t.Error("the producer was not told")
	}
	_, url = serve(t, "--data", data)
	snap := decoded[wire.Snapshot](t, at(t, url, nil, "show", "--json", "m1").out)
	if snap.Status != plane.StatusInterrupted || snap.Text != text {
		t.Errorf("after a restart it is %s with %d units of %d", snap.Status, snap.Seq, plane.Units(text))
	}
}

// waitText returns when a stream has the text.
func waitText(t *testing.T, url, id, text string) result {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got := at(t, url, nil, "show", id)
		if got.out == text {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %+v, want %.80q", id, got, text)
		}
	}
}

func TestServeThatWasKilledKeepsWhatWasDurable(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, url := serve(t, "--data", data)
	const durable, more = "every 😀 character of this is durable.", " And this may be."
	post(t, url+"/v1/streams/m1", ``)
	post(t, url+"/v1/streams/m1/append?from=0", `{"text":"`+durable+`"}`)
	if got := at(t, url, nil, "flush", "m1"); got.code != 0 {
		t.Fatalf("flush: %+v", got)
	}
	post(t, url+"/v1/streams/m1/append", `{"text":"`+more+`"}`)
	p.Signal(t, os.Kill)
	p.Ended(t)

	_, url = serve(t, "--data", data) // at another address
	tailed := at(t, url, nil, "tail", "m1")
	snap := decoded[wire.Snapshot](t, at(t, url, nil, "show", "--json", "m1").out)
	if snap.Status != plane.StatusInterrupted || !strings.HasPrefix(snap.Text, durable) || !strings.HasPrefix(durable+more, snap.Text) {
		t.Errorf("it is %s with %q", snap.Status, snap.Text)
	}
	if tailed.code != exitInterrupted || tailed.out != snap.Text { // its producer had the grace to come back in
		t.Errorf("tail: %+v", tailed)
	}
	if got := at(t, url, nil, "ls", "--status", "streaming", "--json"); got.code != 0 || got.out != "" {
		t.Errorf("still streaming: %+v", got)
	}
}

func TestServeSealsStreamsWhoseProducerIsGone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--producer-timeout", "500ms"}, {"RILLKEEP_PRODUCER_TIMEOUT=500ms"}} {
		_, url := serve(t, append(args, "--data", t.TempDir())...)
		resp, err := http.Post(url+"/v1/streams/m1", "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := at(t, url, nil, "tail", "m1"); !strings.Contains(got.err, "interrupted") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestTailSurvivesItsConnectionAndItsServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, url := serve(t, "--data", data)
	way := openWay(t, strings.TrimPrefix(url, "http://"))
	post(t, url+"/v1/streams/m1", ``)
	tail := launch(t, "tail", "m1", "--server", "http://"+way.addr())
	text := ""
	for _, piece := range []string{"Before it all, ", "after one 😀 cut, ", "after another, "} {
		post(t, url+"/v1/streams/m1/append", `{"text":"`+piece+`"}`)
		text += piece
		tail.Printed(t, text)
		way.cut()
	}
	if got := at(t, url, nil, "flush", "m1"); got.code != 0 {
		t.Fatalf("flush: %+v", got)
	}
	p.Signal(t, os.Kill)
	p.Ended(t)
	way.cut()
	_, _ = serve(t, "--data", data, "--listen", strings.TrimPrefix(url, "http://"))
	if code := tail.Ended(t); code != exitInterrupted || tail.Out.String() != text {
		t.Errorf("exit %d, printed %q, want %q", code, tail.Out, text)
	}
	if !strings.Contains(tail.Err.String(), "connecting again\n") {
		t.Errorf("said %q", tail.Err)
	}
}

func TestServeRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, url := serve(t, "--data", data)
	addr := strings.TrimPrefix(url, "http://")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"another's data":   {[]string{"--data", data, "--listen", "127.0.0.1:0"}, "another node of that name is running: give each node of a database a name of its own\nStop that one, name this one with --name"},
		"another's port":   {[]string{"--listen", addr}, "listen (--listen): listen tcp " + addr + ": bind: address already in use\nChoose another address there"},
		"all without keys": {[]string{"--listen", "0.0.0.0:0"}, "refuse to listen on \"0.0.0.0:0\" without keys"},
		"no address":       {[]string{"--listen", "8080"}, "missing port in address"},
		"no keys":          {[]string{"--listen", "127.0.0.1:0", "--keys", filepath.Join(data, "none")}, "no such file"},
		"no such database": {[]string{"--listen", "127.0.0.1:0", "--database", "mysql://u:hush@127.0.0.1/x"}, "postgres:// URL"},
		"a damaged URL":    {[]string{"--listen", "127.0.0.1:0", "--database", "postgres://u:hush@127.0.0.1:port/x"}, "open database"},
		"a way to nothing": {[]string{"--listen", "127.0.0.1:0", "--direct-database", "postgres://u:hush@127.0.0.1/x"}, "without a database"},
	} {
		got := launch(t, append([]string{"serve"}, tt.args...)...)
		code := got.Ended(t)
		if said := got.Err.String(); code != exitFailure || !strings.Contains(said, "rillkeep: ") || !strings.Contains(said, tt.want) ||
			strings.Contains(said, "hush") || strings.Contains(said, "Start a node") || got.Out.String() != "" {
			t.Errorf("%s: exit %d, said %q, want %q", name, code, said, tt.want)
		}
	}
	p.Signal(t, os.Interrupt)
	if code := p.Ended(t); code != 0 {
		t.Errorf("the node that was there: exit %d", code)
	}
}

func TestServeRefusesASettingThatWouldHaveNoEffect(t *testing.T) {
	t.Parallel()
	const database = "--database=postgres://u:hush@127.0.0.1:1/x"
	keys := keysFile(t, secret)
	for name, tt := range map[string]struct {
		args []string // the last one is the setting
		want string   // what the others lack
	}{
		"a folder beside a database":       {[]string{database, "--data=data"}, "Data beside a Database has no effect"},
		"the same from the environment":    {[]string{"RILLKEEP_DATA=data", database}, "Data beside a Database has no effect"},
		"a way past no pooler":             {[]string{"--direct-database=postgres://u:hush@127.0.0.1:1/x"}, "DirectDatabase without a database has no effect"},
		"an audience without keys":         {[]string{"--audience=app"}, "Audience without Keys has no effect"},
		"the default audience, too":        {[]string{"--audience=rillkeep"}, "Audience without Keys has no effect"},
		"an audience from the environment": {[]string{"RILLKEEP_AUDIENCE=app"}, "Audience without Keys has no effect"},
		"a table without a database":       {[]string{"--chunks=c", "--table=m"}, "Tables of the application need its database"},
		"columns without a table":          {[]string{database, "--columns=body=content"}, "no table is named for messages"},
		"chunks without a table":           {[]string{database, "--chunks=c"}, "no table is named for messages"},
		"chunk columns without chunks":     {[]string{database, "--table=m", "--chunk-columns=text=piece"}, "no table is named for chunks"},
		"a table without chunks":           {[]string{database, "--table=m"}, "no table is named for chunks"},
		"a name that no column holds":      {[]string{database, "--table=m", "--chunks=c", "--name=n1"}, "a node's name needs a column for host"},
		"retention of messages":            {[]string{database, "--table=m", "--chunks=c", "--retention=1h"}, "an application's tables have no retention"},
		"a place in no cluster":            {[]string{"--join=127.0.0.1:1"}, "without --cluster-secret"},
		"certificates in no cluster":       {[]string{"--cluster-tls-ca=ca.pem"}, "without --cluster-secret"},
		"a certificate without its key":    {[]string{"--cluster-secret=hush hush hush hush", "--cluster-tls-cert=c.pem"}, "--cluster-tls-key"},
		"text for no stream":               {[]string{"--keys=" + keys, "--max-text=5"}, "MaxText is 5 bytes, and must be at least 64 KiB"},
	} {
		args, env := tt.args, 0
		for env < len(args) && strings.HasPrefix(args[env], "RILLKEEP_") {
			env++
		}
		got := launch(t, slices.Insert(slices.Clone(args), env, "serve", "--listen=127.0.0.1:0")...)
		if code, said := got.Ended(t), got.Err.String(); code != exitFailure || !strings.HasPrefix(said, "rillkeep: ") ||
			!strings.Contains(said, tt.want) || strings.Contains(said, "hush") || got.Out.String() != "" {
			t.Errorf("%s: exit %d, said %q, want %q", name, code, said, tt.want)
		}
	}
}

func TestServeSharesItsFolderWithNodesOfOtherNames(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	one, first := serve(t, "--data", data, "--name", "n1", "--retention", "720h")
	_, second := serve(t, "--data", data, "--name", "n2")
	post(t, first+"/v1/streams/m1", ``)
	post(t, first+"/v1/streams/m1/append", `{"text":"durable"}`)
	if got := at(t, first, nil, "flush", "m1"); got.code != 0 {
		t.Fatalf("flush: %+v", got)
	}
	tail := launch(t, "tail", "m1", "--server", second)
	tail.Printed(t, "durable")
	one.Signal(t, os.Kill)
	one.Ended(t)
	_, _ = serve(t, "--data", data, "--name", "n1") // its name is free at once
	if code := tail.Ended(t); code != exitInterrupted || tail.Out.String() != "durable" {
		t.Errorf("the reader on the other node: exit %d, %q", code, tail.Out)
	}
}

func TestServeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	addr := pgtest.FreeAddress(t)
	p := launch(t, "serve", "--listen", addr, "--database", "postgres://u:hush@127.0.0.1:1/x", "--direct-database", "postgres://u:hush@127.0.0.1:1/x")
	p.Said(t, "connection refused")
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Ended(t); code != exitSignal || strings.Contains(p.Err.String(), "hush") || p.Out.String() != "" {
		t.Errorf("exit %d, said %q", code, p.Err)
	}
}

func TestServeKeepsStreamsInPostgres(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	const password = "hush-this-password"
	if _, set := u.User.Password(); !set { // one that the server does not ask for
		u.User = url.UserPassword(u.User.Username(), password)
	}
	secret, _ := u.User.Password()
	var all []*proctest.Process
	for round, args := range [][]string{{"--database", u.String()}, {"RILLKEEP_DATABASE=" + u.String(), "--name", "n1"}} {
		p, url := serve(t, append(args, "--log-level", "debug")...)
		all = append(all, p)
		id := []string{"m1", "m2"}[round]
		at(t, url, strings.NewReader("kept in 🐘"), "push", id).want(t, 0, "", "")
		for _, id := range []string{"m1", id} { // the first one outlives its node
			at(t, url, nil, "tail", id).want(t, 0, "kept in 🐘", "")
		}
		p.Signal(t, syscall.SIGTERM)
		if code := p.Ended(t); code != 0 {
			t.Errorf("exit %d", code)
		}
		if _, err := os.Stat(filepath.Join(p.Cmd.Dir, node.DefaultData)); err == nil {
			t.Error("it made a folder for data as well")
		}
	}
	help := launch(t, "RILLKEEP_DATABASE="+u.String(), "serve", "--help")
	help.Ended(t)
	for _, p := range append(all, help) {
		if printed := p.Out.String() + p.Err.String(); strings.Contains(printed, secret) {
			t.Errorf("%v shows the password: %s", p.Cmd.Args, printed)
		}
	}
}
