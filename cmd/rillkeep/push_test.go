package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
)

// sample is a recorded response.
func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "router", "upstream", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s server) snapshot(t *testing.T, id string) wire.Snapshot {
	t.Helper()
	got := s.command(t, "", "show", "--json", id)
	if got.code != 0 {
		t.Fatalf("show %s: %+v", id, got)
	}
	return decoded[wire.Snapshot](t, got.out)
}

func TestPushSealsTheStreamAsItsInputEnds(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	const (
		truncated = "upstream ended before its response did"
		rated     = "upstream error rate_limit_error (429): Rate limit"
	)
	for name, tt := range map[string]struct {
		format, in string
		text       string
		code       int
		why        string
	}{
		"chat completions":           {"openai", sample(t, "bom.sse"), "First in\uFEFFside last", 0, ""},
		"a whole completion":         {"openai", sample(t, "whole-completion.json"), "Whole answer.", 0, ""},
		"messages":                   {"anthropic", sample(t, "anthropic-text.sse"), "Hello!", 0, ""},
		"lines":                      {"ndjson", sample(t, "halves.jsonl"), "Hi 😀! 👍🏽 ok", 0, ""},
		"text":                       {"text", "Grüße\n😀\x00\n", "Grüße\n😀\uFFFD\n", 0, ""},
		"completions that break off": {"openai", sample(t, "openai-cut.sse"), "Some of it", exitInterrupted, truncated},
		"messages that break off":    {"anthropic", sample(t, "anthropic-cut.sse"), "Partial", exitInterrupted, truncated},
		"lines that break off":       {"ndjson", sample(t, "lines-cut.ndjson"), "kept too ", exitInterrupted, truncated},
		"completions with an error":  {"openai", sample(t, "error-a-data-error.sse"), "Partial", exitError, rated},
		"messages with an error":     {"anthropic", sample(t, "anthropic-error.sse"), "Partial", exitError, "upstream error overloaded_error: Overloaded"},
		"lines with an error":        {"ndjson", sample(t, "lines-error.ndjson"), "kept", exitError, "upstream error server_error: at [host]"},
		"an error that tells secrets": {"openai", sample(t, "error-f-error-with-choices.sse"), "Partial", exitError,
			"upstream error: upstream host [host] refused, key [key]"},
		"a page":  {"openai", sample(t, "page.html"), "", exitError, "upstream sent what is no response"},
		"nothing": {"text", "", "", exitError, "upstream sent no response"},
	} {
		got := s.command(t, tt.in, "push", "--format", tt.format, name)
		snap := s.snapshot(t, name)
		status := map[int]plane.Status{0: plane.StatusComplete, exitError: plane.StatusError, exitInterrupted: plane.StatusInterrupted}[tt.code]
		if got.code != tt.code || got.out != "" || snap.Text != tt.text || snap.Status != status || snap.DurableSeq != plane.Units(tt.text) {
			t.Errorf("%s: %+v, sealed %s with %q, want exit %d and %q", name, got, snap.Status, snap.Text, tt.code, tt.text)
		}
		if why := map[bool]string{true: tt.why}[tt.code == exitError]; !strings.HasPrefix(snap.Error, why) || (snap.Error == "") != (why == "") {
			t.Errorf("%s: sealed with the error %q, want %q", name, snap.Error, why)
		}
		if !strings.Contains(got.err, tt.why) || (got.err == "") != (tt.code == 0) {
			t.Errorf("%s: said %q, want %q", name, got.err, tt.why)
		}
	}
}

func TestPushKeepsWhatItIsToldOfTheStream(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	got := s.command(t, "text", "push", "--json", "--producer", "app", "--meta", `{"chat":17}`, "a/b c")
	got.want(t, 0, `{"status":"complete","seq":4,"durableSeq":4}`+"\n", "")
	if snap := s.snapshot(t, "a/b c"); snap.Producer != "app" || string(snap.Meta) != `{"chat":17}` {
		t.Errorf("%+v", snap)
	}
	s.command(t, "text", "push", "a/b c").want(t, exitFailure, "", "rillkeep: the stream exists already, and has ended; take another id\n")
	s.command(t, "text", "push", strings.Repeat("x", 300)).want(t, exitFailure, "", "rillkeep: a stream id has 1 to 256 bytes\n")
}

func TestPushTakesLargeInput(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	text := strings.Repeat("Grüße, 日本語 und 😀.\n", 1<<20/32)
	s.command(t, text, "push", "text").want(t, 0, "", "")
	s.command(t, `{"text":"`+strings.ReplaceAll(text, "\n", `\n`)+`"}`, "push", "--format", "ndjson", "line").want(t, 0, "", "")
	for _, id := range []string{"text", "line"} {
		if got := s.command(t, "", "tail", id); got.code != 0 || got.out != text {
			t.Errorf("%s: exit %d, %d bytes of %d", id, got.code, len(got.out), len(text))
		}
	}
}

// pushing is a push whose input goes on.
type pushing struct {
	in   *io.PipeWriter
	stop context.CancelFunc // what Ctrl-C does
	done chan result
}

func (s server) push(t *testing.T, args ...string) *pushing {
	t.Helper()
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	p := &pushing{in: out, stop: stop, done: make(chan result, 1)}
	go func() { p.done <- command(ctx, in, s.args(append([]string{"push"}, args...)...)...) }()
	return p
}

func (p *pushing) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.in, text); err != nil {
		t.Fatal(err)
	}
}

// waitText returns when a stream has the text.
func (s server) waitText(t *testing.T, id, text string) {
	t.Helper()
	for ctx, ok := context.WithTimeout(t.Context(), patience); ; {
		got := s.command(t, "", "show", id)
		if got.out == text {
			ok()
			return
		}
		if ctx.Err() != nil {
			ok()
			t.Fatalf("%s has %q, want %q", id, got.out, text)
		}
	}
}

func TestPushEndsWhenItsStreamIsCancelledThoughItsInputIsSilent(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	p := s.push(t, "--json", "m1")
	p.write(t, "some text")
	s.waitText(t, "m1", "some text")
	s.command(t, "", "cancel", "m1").want(t, 0, "asked to stop\n", "")
	got := <-p.done
	got.want(t, exitCancelled, `{"status":"cancelled","seq":9,"durableSeq":9}`+"\n", "rillkeep: the stream was cancelled\n")
	if snap := s.snapshot(t, "m1"); snap.Status != plane.StatusCancelled || snap.Text != "some text" {
		t.Errorf("%+v", snap)
	}
	s.command(t, "", "cancel", "m1").want(t, 0, "ended before: cancelled\n", "")
	s.command(t, "", "tail", "m1").want(t, exitCancelled, "some text", "rillkeep: the stream was cancelled\n")
}

func TestPushThatIsStoppedSealsWhatItRead(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	for _, format := range []string{"text", "openai", "ndjson"} {
		p := s.push(t, "--format", format, format)
		if in := map[string]string{"openai": `data: {"choices":[{"delta":{"content":"read"}}]}` + "\n\n", "ndjson": `"read"` + "\n"}[format]; in != "" {
			p.write(t, in)
		} else {
			p.write(t, "read")
		}
		s.waitText(t, format, "read")
		p.stop()
		got := <-p.done
		got.want(t, exitInterrupted, "", "rillkeep: the stream was interrupted\n")
		snap := s.snapshot(t, format)
		if diff := cmp.Diff([]string{"interrupted", "read", ""}, []string{string(snap.Status), snap.Text, snap.Error}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestPushThatIsStoppedWithWhatFeedsItIsNotComplete(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	p := s.push(t, "m1")
	p.write(t, "half of it")
	s.waitText(t, "m1", "half of it")
	p.stop()
	_ = p.in.Close() // as what writes into the pipe exits
	got := <-p.done
	got.want(t, exitInterrupted, "", "rillkeep: the stream was interrupted\n")
}

func TestPushSaysHowAnotherEndedItsStream(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	p := s.push(t, "m1")
	p.write(t, "text")
	s.waitText(t, "m1", "text")
	post(t, s.URL()+"/v1/streams/m1/fail", `{"error":"given up"}`)
	got := <-p.done
	got.want(t, exitError, "", "rillkeep: the stream ended with an error\n")
}

func TestPushWhoseConnectionIsLostGoesOn(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	way := openWay(t, strings.TrimPrefix(s.URL(), "http://"))
	push := launch(t, "push", "m1", "--server", "http://"+way.addr())
	if _, err := io.WriteString(push.In, "text"); err != nil {
		t.Fatal(err)
	}
	s.waitText(t, "m1", "text")
	way.cut()
	if _, err := io.WriteString(push.In, ", and more"); err != nil {
		t.Fatal(err)
	}
	_ = push.In.Close()
	code := push.Ended(t)
	if said := push.Err.String(); code != 0 || !strings.HasPrefix(said, "rillkeep: the node is away: ") {
		t.Errorf("exit %d, said %q", code, said)
	}
	if snap := s.snapshot(t, "m1"); snap.Status != plane.StatusComplete || snap.Text != "text, and more" {
		t.Errorf("%+v", snap)
	}
}

func TestPushSaysWhatItKnowsWhenItsNodeGoesAway(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signal os.Signal
		code   int
		want   *regexp.Regexp
	}{
		"stopped": {syscall.SIGTERM, exitInterrupted, regexp.MustCompile(`^rillkeep: the stream was interrupted\n$`)},
		"killed": {os.Kill, exitFailure, regexp.MustCompile(
			`^rillkeep: the node is away: .+; trying again\nrillkeep: stream m1 was left without an end: .+; [04] units are known to be durable\n` +
				`If its node is gone it will end interrupted; if another node has it, it stays open until somebody closes or cancels it\.\n` +
				`What is kept of it is printed by rillkeep show m1; push the whole again with another id\.\n$`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, url := serve(t)
			push := launch(t, "push", "m1", "--server", url, "--patience", "1s")
			if _, err := io.WriteString(push.In, "text"); err != nil {
				t.Fatal(err)
			}
			waitText(t, url, "m1", "text")
			at(t, url, nil, "flush", "m1").want(t, 0, "durable through 4\n", "")
			p.Signal(t, tt.signal)
			if code, said := push.Ended(t), push.Err.String(); code != tt.code || !tt.want.MatchString(said) {
				t.Errorf("exit %d, said %q", code, said)
			}
		})
	}
}

func TestPushThatIsStoppedBeforeItHasAStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
	push := launch(t, "push", "m1", "--server", "http://127.0.0.1:1")
	push.Said(t, "rillkeep: the node is away: server is not reached: dial tcp 127.0.0.1:1: connect: connection refused; trying again\n")
	push.Signal(t, syscall.SIGTERM)
	if code := push.EndedWithin(t, 10*time.Second); code != exitSignal || strings.Count(push.Err.String(), "\n") != 1 {
		t.Errorf("exit %d, said %q", code, push.Err)
	}
}
