package main

import (
	"bufio"
	"context"
	"database/sql"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

// post calls the API as another client would.
func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %s, %s, %v", url, resp.Status, answer, err)
	}
}

func TestTailPrintsTheTextAsItComes(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	p := s.push(t, "m1")
	p.write(t, "first,")
	s.waitText(t, "m1", "first,")
	out, printed := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), s.args("tail", "m1"), nil, printed, io.Discard)
		_ = printed.Close()
	}()
	got := bufio.NewReader(out)
	for _, text := range []string{"first,", " then 😀,", " last."} {
		if text != "first," {
			p.write(t, text)
		}
		buf := make([]byte, len(text))
		if _, err := io.ReadFull(got, buf); err != nil || string(buf) != text {
			t.Fatalf("printed %q, %v, want %q", buf, err, text)
		}
	}
	_ = p.in.Close()
	if code := <-done; code != 0 {
		t.Errorf("exit %d", code)
	}
	rest, err := io.ReadAll(got)
	if err != nil || len(rest) > 0 {
		t.Errorf("then printed %q, %v", rest, err)
	}
	(<-p.done).want(t, 0, "", "")
}

func TestTailStartsWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	s.command(t, "a😀bc", "push", "m1").want(t, 0, "", "")
	for _, tt := range []struct{ from, out, err string }{
		{"0", "a😀bc", ""},
		{"1", "😀bc", ""},
		{"2", "😀bc", "rillkeep: the text goes back to offset 1\n"},
		{"3", "bc", ""},
		{"5", "", ""},
		{"99", "", "rillkeep: the text goes back to offset 5\n"},
	} {
		s.command(t, "", "tail", "--from", tt.from, "m1").want(t, 0, tt.out, tt.err)
	}
	for _, from := range []string{"0", "3"} {
		got := s.command(t, "", "tail", "--json", "--from", from, "m1")
		var frames []plane.Frame
		for line := range strings.Lines(got.out) {
			f, err := plane.ParseFrame([]byte(strings.TrimSpace(line)))
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			frames = append(frames, f)
		}
		if len(frames) < 3 || frames[0].Kind != plane.KindOpen || frames[len(frames)-1].Status != plane.StatusComplete {
			t.Errorf("from %s: %s", from, got.out)
		}
	}
	s.command(t, "", "tail", "--json", "--from", "5", "m1").want(t, 0,
		`{"type":"open","streamId":"m1","from":5,"seq":5,"durableSeq":5,"ended":true}`+"\n"+
			`{"type":"end","seq":5,"status":"complete"}`+"\n", "")
}

func TestTailExitsAsTheStreamEnded(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	for _, tt := range []struct {
		id, action, body string
		code             int
		err              string
	}{
		{"complete", "close", ``, 0, ""},
		{"cancelled", "cancel", ``, exitCancelled, "rillkeep: the stream was cancelled\n"},
		{"error", "fail", `{"error":"too hot"}`, exitError, "rillkeep: the stream ended with an error: too hot\n"},
		{"interrupted", "close", `{"status":"interrupted"}`, exitInterrupted, "rillkeep: the stream was interrupted\n"},
	} {
		at := s.URL() + "/v1/streams/" + tt.id
		post(t, at, ``)
		post(t, at+"/append", `{"text":"some text"}`)
		post(t, at+"/"+tt.action, tt.body)
		for _, from := range []string{"auto", "live", "durable"} {
			s.command(t, "", "tail", "--plane", from, tt.id).want(t, tt.code, "some text", tt.err)
		}
	}
	for _, from := range []string{"auto", "live", "durable"} {
		s.command(t, "", "tail", "--plane", from, "none").want(t, exitNotFound, "", "rillkeep: stream not found\n")
	}
}

func TestTailSaysOnceThatNobodyHasOpenedItsStreamYet(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, url := serve(t, "--data", data)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "rillkeep.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "INSERT INTO streams (id, created_at, updated_at) VALUES ('m1', 1, 1)"); err != nil {
		t.Fatal(err)
	}
	way := openWay(t, strings.TrimPrefix(url, "http://"))
	var tails []*proctest.Process
	for _, args := range [][]string{{}, {"--plane", "durable"}, {"--json"}} {
		tail := launch(t, append([]string{"tail", "m1", "--server", "http://" + way.addr()}, args...)...)
		tail.Said(t, "rillkeep: the stream has not been opened yet; waiting for its producer\n")
		tails = append(tails, tail)
	}
	way.cut() // and they find it as it was
	at(t, url, strings.NewReader("its text"), "push", "m1").want(t, 0, "", "")
	for _, tail := range tails {
		if code := tail.Ended(t); code != 0 || !strings.Contains(tail.Out.String(), "its text") || strings.Count(tail.Err.String(), "not been opened") != 1 {
			t.Errorf("exit %d, printed %q, said %q", code, tail.Out, tail.Err)
		}
	}
	post(t, url+"/v1/streams/m2", ``)
	silent := launch(t, "tail", "m2", "--json", "--server", url)
	silent.Printed(t, `"type":"open"`)
	post(t, url+"/v1/streams/m2/close", ``)
	if code := silent.Ended(t); code != 0 || silent.Err.String() != "" {
		t.Errorf("a stream that is open and has no text: exit %d, said %q", code, silent.Err)
	}
}

func TestTailThatIsStoppedIsQuiet(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	post(t, s.URL()+"/v1/streams/m1", ``)
	post(t, s.URL()+"/v1/streams/m1/append", `{"text":"some text"}`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, printed := io.Pipe()
	done := make(chan int, 1)
	var said strings.Builder
	go func() { done <- run(ctx, s.args("tail", "m1"), nil, printed, &said) }()
	if _, err := io.ReadFull(out, make([]byte, len("some text"))); err != nil {
		t.Fatal(err)
	}
	stop()
	if code := <-done; code != exitSignal || said.String() != "" {
		t.Errorf("exit %d, said %q", code, said.String())
	}
}

func TestTailWhoseOutputIsGoneFails(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	s.command(t, "text", "push", "m1").want(t, 0, "", "")
	out, printed := io.Pipe()
	_ = out.Close()
	var said strings.Builder
	code := run(t.Context(), s.args("tail", "m1"), nil, printed, &said)
	if code != exitFailure || !strings.HasPrefix(said.String(), "rillkeep: write output: ") {
		t.Errorf("exit %d, said %q", code, said.String())
	}
}
