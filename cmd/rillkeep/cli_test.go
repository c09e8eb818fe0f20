package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/router/node"
)

// TestMain makes the test binary the program, where it is started by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "rillkeep" {
		main()
	}
	os.Exit(m.Run())
}

// patience bounds what should take a moment.
const patience = time.Minute

// result is what a command came to.
type result struct {
	code     int
	out, err string
}

// command runs the program in this process.
func command(ctx context.Context, in io.Reader, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, errOut bytes.Buffer
	code := run(ctx, args, in, &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// server is a node to run commands at.
type server struct{ *node.Node }

func openServer(t *testing.T, cfg node.Config) server {
	t.Helper()
	cfg.Listen, cfg.Data = "127.0.0.1:0", t.TempDir()
	n, err := node.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return server{n}
}

// args names the server on a command line.
func (s server) args(args ...string) []string {
	return slices.Insert(args, 1, "--server", s.URL())
}

// command runs a command for streams.
func (s server) command(t *testing.T, in string, args ...string) result {
	t.Helper()
	return command(t.Context(), strings.NewReader(in), s.args(args...)...)
}

// want fails the test unless a command did what it should.
func (r result) want(t *testing.T, code int, out, errOut string) {
	t.Helper()
	if r.code != code || r.out != out || r.err != errOut {
		t.Errorf("exit %d, printed %q and %q, want %d, %q and %q", r.code, r.out, r.err, code, out, errOut)
	}
}

// decoded reads one JSON value.
func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return v
}

func TestHelpExplainsEveryCommandWithExamples(t *testing.T) {
	all := command(t.Context(), nil, "--help")
	if all.code != 0 || all.err != "" {
		t.Fatalf("--help: exit %d, %q", all.code, all.err)
	}
	for _, want := range []string{"rillkeep tail m1", "Exit codes", "3 cancelled", "130", "exits with 5"} {
		if !strings.Contains(all.out, want) {
			t.Errorf("--help does not show %q:\n%s", want, all.out)
		}
	}
	for name, flags := range map[string][]string{
		"serve":   {"--listen", "--data", "--database", "--table", "--columns", "--chunks", "RILLKEEP_TABLE", "--keys", "--drain", "127.0.0.1:8080", "RILLKEEP_DATABASE", "720h, 1h30m", "at least 64KiB"},
		"dev":     {"--nodes", "--listen", "--data", "--database", "RILLKEEP_DATABASE", "/dev/nodes/dev-1/kill"},
		"cluster": {"--json", "--server", "SHARE"},
		"push":    {"--format", "--meta", "--json", "openai", "RILLKEEP_SERVER", "RILLKEEP_TOKEN"},
		"tail":    {"--from", "--plane", "--json", "UTF-16"},
		"show":    {"--json"},
		"ls":      {"--status", "--prefix", "--json"},
		"flush":   {"--json"},
		"cancel":  {"--json"},
		"ddl":     {"--table", "--columns", "--chunks", "--chunk-columns", "RILLKEEP_CHUNKS"},
		"migrate": {"--database", "--timeout"},
		"help":    nil,
		"version": nil,
		"token":   {"--keys", "--ops", "--streams", "--ttl", "1h"},
	} {
		got := command(t.Context(), nil, name, "--help")
		if got.code != 0 || got.err != "" || !strings.Contains(all.out, "  "+name+" ") {
			t.Errorf("%s --help: exit %d, %q, or not listed", name, got.code, got.err)
		}
		for _, want := range append(flags, "Example", "rillkeep "+name+" ") {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s --help does not show %q:\n%s", name, want, got.out)
			}
		}
		for _, odd := range []string{`""`, "…,...", "……"} {
			if strings.Contains(got.out, odd) {
				t.Errorf("%s --help shows %q:\n%s", name, odd, got.out)
			}
		}
	}
}

func TestUsageErrorsSayWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{`expected one of "serve"`, "see rillkeep --help"}},
		{"psuh m1", []string{"psuh", `did you mean "push"`, "see rillkeep --help"}},
		{"push", []string{`expected "<id>"`, "see rillkeep push --help"}},
		{"push m1 m2", []string{"unexpected argument m2", "see rillkeep push --help"}},
		{"push m1 --format xml", []string{"--format must be one of", `"anthropic"`, `"xml"`}},
		{"push m1 --meta {x}", []string{"--meta is not JSON", "see rillkeep push --help"}},
		{"tail m1 --form 3", []string{`did you mean "--from"`, "see rillkeep tail --help"}},
		{"tail m1 --from=-3", []string{"--from is an offset, 0 or more"}},
		{"tail m1 --from x", []string{"--from"}},
		{"tail m1 --plane sea", []string{"--plane must be one of"}},
		{"ls --status odd", []string{`--status must be one of "pending",`, `"interrupted"`}},
		{"serve --forwarding odd", []string{`--forwarding must be one of "proxy","fly-replay" but got "odd"`}},
		{"token", []string{"missing flags: --keys=FILE", "see rillkeep token --help"}},
		{"token --keys k --ops own", []string{"--ops must be one of"}},
		{"serve --log-level loud", []string{"--log-level"}},
		{"serve --drain soon", []string{"--drain"}},
		{"serve --drain 0s", []string{"--drain is a time of more than 0", "see rillkeep serve --help"}},
		{"migrate --database postgres://h/x --timeout=-1s", []string{"--timeout is a time of more than 0"}},
		{"dev --nodes 0", []string{"--nodes is from 1 to 9", "see rillkeep dev --help"}},
		{"dev --nodes 10", []string{"--nodes is from 1 to 9"}},
	} {
		got := command(t.Context(), nil, strings.Fields(tt.args)...)
		if got.code != exitUsage || got.out != "" || !strings.HasPrefix(got.err, "rillkeep: ") {
			t.Errorf("rillkeep %s: %+v", tt.args, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got.err, want) {
				t.Errorf("rillkeep %s does not say %q: %s", tt.args, want, got.err)
			}
		}
	}
}

func TestServerAndTokenMayComeFromTheEnvironment(t *testing.T) {
	s := openServer(t, node.Config{Keys: testKeys(t, secret)})
	t.Setenv("RILLKEEP_SERVER", s.URL())
	t.Setenv("RILLKEEP_TOKEN", "")
	got := command(t.Context(), nil, "show", "m1")
	if got.code != exitDenied || !strings.Contains(got.err, "Put a token into RILLKEEP_TOKEN") {
		t.Errorf("without a token: %+v", got)
	}
	t.Setenv("RILLKEEP_TOKEN", mint(t, secret, "--ops", "write,read"))
	command(t.Context(), strings.NewReader("text"), "push", "m1").want(t, 0, "", "")
	command(t.Context(), nil, "show", "m1").want(t, 0, "text", "")
	command(t.Context(), nil, "show", "--token", "x", "m1").want(t, exitDenied, "",
		"rillkeep: token is not valid: malformed\nPut a token into RILLKEEP_TOKEN; rillkeep token mints one.\n")
	command(t.Context(), nil, "show", "--server", "nowhere", "m1").want(t, exitFailure, "",
		"rillkeep: the server is given by its base URL, such as http://127.0.0.1:8080\n")
}

func TestAServerThatIsNotThereIsSaidSo(t *testing.T) {
	for _, args := range [][]string{{"push", "m1", "--patience", "1s"}, {"tail", "m1"}, {"show", "m1"}, {"ls"}, {"flush", "m1"}, {"cancel", "m1"}, {"cluster"}} {
		got := command(t.Context(), strings.NewReader("text"), append(args, "--server", "http://user:hush@127.0.0.1:1")...)
		if got.code != exitFailure || !strings.Contains(got.err, "connection refused\nStart a node with rillkeep serve") ||
			strings.Contains(got.err, "hush") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
