package node_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
)

// testFile returns a file of testdata.
func testFile(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// appendLines opens a stream and sends each line as the body of one append, its
// bytes unchanged.
func (r *running) appendLines(id string, lines ...string) {
	r.tb.Helper()
	r.open(id)
	pos := int64(0)
	for _, line := range lines {
		// A repeat of each tells whether its offset is where it should be.
		for range 2 {
			a := r.do(http.MethodPost, path(id, "append")+fmt.Sprintf("?from=%d", pos), line, "Content-Type", "application/json")
			if a.status != http.StatusOK {
				r.tb.Fatalf("append %s at %d: %d %s", line, pos, a.status, a.body)
			}
			if ack := decode[wire.Ack](r.tb, a); ack.DurableSeq > ack.Seq {
				r.tb.Fatalf("ack %s", a.body)
			}
		}
		pos += unitsOf(r.tb, line)
	}
}

// unitsOf counts what a JavaScript producer would: the text's length.
func unitsOf(tb testing.TB, line string) int64 {
	tb.Helper()
	var v struct{ Text json.RawMessage }
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		tb.Fatal(err)
	}
	text, err := plane.UnescapeJSON(nil, v.Text)
	if err != nil {
		tb.Fatal(err)
	}
	return plane.Units(string(text))
}

// everywhere reads a sealed stream in every way, before and after a restart,
// and fails the test where the text is another.
func everywhere(t *testing.T, n *running, id, want string) {
	t.Helper()
	check := func(state string, n *running) {
		t.Helper()
		if snap := n.snapshot(id); snap.Text != want {
			t.Errorf("%s, snapshot: %q, want %q", state, snap.Text, want)
		}
		for _, query := range []string{"plane=auto", "plane=durable"} {
			if got, _ := n.text(id, query); got != want {
				t.Errorf("%s, %s: %q, want %q", state, query, got, want)
			}
		}
	}
	if got, _ := n.text(id, "plane=live"); got != want {
		t.Errorf("live: %q, want %q", got, want)
	}
	check("lingering", n)
	check("after a restart", n.restart())
}

// watch reads a stream from now on, and returns what gives its text once it has
// ended.
func (r *running) watch(id, query string) func() string {
	r.tb.Helper()
	rd := r.reads(id, query)
	var text strings.Builder
	rd.into = &text
	done := make(chan error, 1)
	go func() { done <- rd.rest() }()
	return func() string {
		r.tb.Helper()
		if err := <-done; err != nil {
			r.tb.Error(err)
		}
		return text.String()
	}
}

func TestNULBecomesAReplacementBeforeAnybodySeesIt(t *testing.T) {
	t.Parallel()
	const sum = "a11a55117dc7e34879480a0e4d84b86e77f589333b2e85e7db8d8f1139c48866"
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.appendLines("appended", lines(t, testFile(t, "nul.jsonl"))...)
		live := n.watch("appended", "plane=live")
		n.flush("appended")
		n.seal("appended")
		text := live()
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); got != sum {
			t.Errorf("appended: %q", text)
		}
		if got := n.metrics()["rillkeep_replaced_characters_total"]; got != 2 {
			t.Errorf("%v characters were replaced, want 2", got)
		}

		n.open("pumped")
		source := func(ctx context.Context) iter.Seq2[string, error] {
			return upstream.Deltas(ctx, strings.NewReader(string(testFile(t, "nul.sse"))), upstream.OpenAI, upstream.Options{})
		}
		if ack, err := n.client.Pump(t.Context(), "pumped", 0, source, nil); err != nil || ack.Seq != 240 || !ack.Done {
			t.Fatalf("pump: %+v, %v", ack, err)
		}
		n.seal("pumped")
		if got := n.snapshot("pumped"); got.Text != text || ended(t, got) != plane.StatusComplete {
			t.Errorf("pumped: %q", got.Text)
		}
		everywhere(t, n, "appended", text)
	})
}

func TestHalvesOfASurrogatePairMeetOverTwoAppends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, want string }{
		{"whole", "surrogates.jsonl", "Hi 😀! 👍🏽 ok"},
		{"never completed", "surrogates-never-completed.jsonl", "A\uFFFDB"},
		{"low half first", "surrogates-low-first.jsonl", "\uFFFDx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
				deltas := slices.DeleteFunc(lines(t, testFile(t, c.file)), func(line string) bool { return line == `{"finish":true}` })
				n.open("watched")
				live := n.watch("watched", "")
				for _, line := range deltas {
					if a := n.do(http.MethodPost, path("watched", "append"), line, "Content-Type", "application/json"); a.status != http.StatusOK {
						t.Fatal(a)
					}
				}
				n.seal("watched")
				if got := live(); got != c.want { // and no chunk held a half
					t.Errorf("live: %q, want %q", got, c.want)
				}
				n.appendLines("m1", deltas...)
				n.seal("m1")
				everywhere(t, n, "m1", c.want)
			})
		})
	}
}

func TestAnUnfinishedHalfIsReceivedButNotProduced(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	a := n.do(http.MethodPost, path("m1", "append")+"?from=0", `{"text":"A\ud83d"}`)
	if ack := decode[wire.Ack](t, a); ack.Seq != 2 {
		t.Errorf("the next append starts at %d, want 2", ack.Seq)
	}
	n.flush("m1")
	if snap := n.snapshot("m1"); snap.Text != "A" || snap.Seq != 1 || snap.DurableSeq != 1 {
		t.Errorf("produced so far: %+v", snap)
	}
	n.seal("m1") // which ends, though a half is still waited for
	if got := n.snapshot("m1").Text; got != "A\uFFFD" {
		t.Errorf("got %q", got)
	}
}

func TestCutUTF8InPlainTextIsJoined(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	n.open("m1")
	for _, piece := range []string{"a\xf0\x9f", "\x98", "\x80b", "\xff", "\xe6\xbc\xa2"} {
		if a := n.do(http.MethodPost, path("m1", "append"), piece, "Content-Type", "text/plain; charset=UTF-8"); a.status != http.StatusOK {
			t.Fatal(a)
		}
	}
	n.seal("m1")
	if got := n.snapshot("m1").Text; got != "a😀b\uFFFD漢" {
		t.Errorf("got %q", got)
	}
}

func TestOffsetsAreUTF16UnitsAndNeverCutAPair(t *testing.T) {
	t.Parallel()
	var want struct {
		Frames []struct {
			Text       string
			Start, End int64
		}
		Rest   map[int64]string `json:"cursor_to_rest"`
		Inside []int64          `json:"cursors_inside_a_pair"`
	}
	if err := json.Unmarshal(testFile(t, "utf16.json"), &want); err != nil {
		t.Fatal(err)
	}
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.open("m1")
		live := n.reads("m1", "")
		var rest []string
		for i, line := range lines(t, testFile(t, "utf16.jsonl")) {
			f := want.Frames[i]
			rest = append(rest, f.Text)
			a := n.do(http.MethodPost, path("m1", "append")+fmt.Sprintf("?from=%d", f.Start), line)
			if ack := decode[wire.Ack](t, a); ack.Seq != f.End {
				t.Fatalf("append %s at %d: %s, want %d", line, f.Start, a.body, f.End)
			}
			if err := live.until(f.End); err != nil {
				t.Fatal(err)
			}
		}
		check := func(state string, n *running, planes ...string) {
			whole := strings.Join(rest, "")
			for at := int64(0); at <= plane.Units(whole); at++ {
				start := at
				if slices.Contains(want.Inside, at) {
					start--
				}
				for _, p := range planes {
					r := n.reads("m1", fmt.Sprintf("from=%d&plane=%s", at, p))
					var text strings.Builder
					r.into = &text
					err := r.until(plane.Units(whole))
					if err != nil || r.from != start || text.String() != plane.Skip(whole, start) {
						t.Errorf("%s, %s from %d: from %d %q, %v", state, p, at, r.from, text.String(), err)
					}
					if inside := start != at; !inside && text.String() != want.Rest[at] {
						t.Errorf("%s, %s from %d: %q, want %q", state, p, at, text.String(), want.Rest[at])
					}
					_ = r.body.Close()
				}
			}
		}
		n.flush("m1")
		check("live", n, "auto", "live", "durable")
		n.seal("m1")
		check("lingering", n, "auto", "live", "durable")
		check("after a restart", n.restart(), "auto", "durable")
	})
}

func TestTextComesBackExactly(t *testing.T) {
	t.Parallel()
	const sum = "97113d87a9655f909424e76f0809c479e9a201e1a46aaf599796ae991988f276"
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		n.appendLines("m1", lines(t, testFile(t, "exact.jsonl"))...)
		live := n.watch("m1", "plane=live")
		n.seal("m1")
		text := live()
		hash := sha256.New()
		_, _ = io.WriteString(hash, text)
		if got := fmt.Sprintf("%x", hash.Sum(nil)); got != sum || plane.Units(text) != 49 {
			t.Fatalf("live: %q", text)
		}
		for at := range int64(49) {
			for _, p := range []string{"auto", "durable"} {
				if got, _ := n.text("m1", "plane="+p, "Last-Event-ID", fmt.Sprint(at)); got != plane.Skip(text, at) {
					t.Errorf("%s, resumed at %d: %q", p, at, got)
				}
			}
		}
		everywhere(t, n, "m1", text)
	})
}
