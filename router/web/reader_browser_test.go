package web_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/router/web/webtest"
)

// stub stands in for EventSource: the script below plays the node's part.
const stub = `(async () => {
  const sources = [];
  class Source {
    static CLOSED = 2;
    constructor(url) { this.url = url; this.readyState = 0; sources.push(this); }
    close() { this.readyState = 2; }
  }
  const { EventSource, setTimeout, fetch } = globalThis;
  Object.assign(globalThis, { EventSource: Source, setTimeout: (f, ms) => (ms < 1000 ? setTimeout(f, 0) : later.push(f) && 0) });
  globalThis.fetch = async () => new Response('{"error":{"code":"c","message":"m"}}', { status: answers.shift() ?? 200 });
  const seen = [];
  const later = []; // what waits a second or more
  let text = '';
  let reader;
  const answers = %s; // to the question why there was no stream
  try {
    const { follow } = await import('/web/client/rillkeep.js');
    reader = follow({ streamId: %s, text: %s, plane: 'live', source: 'eventsource', onChange: (s) => { text = s.text; seen.push(s); } });
    for (const step of %s) {
      const source = sources.at(-1);
      if (step.late !== undefined) sources[step.late].onmessage(event(step));
      else if (step.refused) { source.readyState = 2; source.onerror(); }
      else if (step.wait) later.pop()();
      else if (step.close) reader.close();
      else source.onmessage(event(step));
      for (let i = 0; i < 3; i++) await new Promise((done) => setTimeout(done, 0));
    }
  } finally {
    Object.assign(globalThis, { EventSource, setTimeout, fetch });
  }
  const last = reader.state;
  const open = sources.filter((s) => s.readyState !== 2).length;
  reader.close();
  return {
    text: last.text, shown: seen.map((s) => s.text), produced: last.produced, durable: last.durable, status: last.status,
    link: last.link, code: last.problem?.code ?? '', urls: sources.map((s) => s.url), open,
  };
  function event(step) { return { data: step.raw ?? JSON.stringify(step.f), lastEventId: step.id ?? '' }; }
})()`

type step map[string]any

// Frames as a node sends them.
func opened(id string, from, seq, durable int) step {
	return step{"id": id, "f": map[string]any{"type": "open", "streamId": "m1", "from": from, "seq": seq, "durableSeq": durable, "ended": false}}
}

func chunk(from int, text string) step {
	return step{"f": map[string]any{"type": "chunk", "from": from, "seq": from + len(text), "text": text}}
}

func durable(seq int) step { return step{"f": map[string]any{"type": "durable", "seq": seq}} }

func ended(seq int, status string) step {
	return step{"f": map[string]any{"type": "end", "seq": seq, "status": status}}
}

func stale() step { return step{"f": map[string]any{"type": "stale", "floorSeq": 0, "durableSeq": 2}} }

func absent() step { return step{"f": map[string]any{"type": "absent"}} }

func late(source int, s step) step { s["late"] = source; return s }

func url(at, plane string) string { return "/v1/streams/m1?from=" + at + "&plane=" + plane }

type reading struct {
	Text     string   `json:"text"`
	Shown    []string `json:"shown"`
	Produced int      `json:"produced"`
	Durable  int      `json:"durable"`
	Status   string   `json:"status"`
	Link     string   `json:"link"`
	Code     string   `json:"code"`
	URLs     []string `json:"urls"`
	Open     int      `json:"open"`
}

func TestReader(t *testing.T) {
	p := openPage(t, webtest.Open(t), openNode(t), "web/icon.svg") // not the page, which has timers of its own
	start := opened("0", 0, 0, 0)
	tests := map[string]struct {
		text    string // known before
		steps   []step
		answers []int
		grows   bool // what is shown never gets shorter
		want    reading
	}{
		"text is joined after what is known": {
			text: "The quick", steps: []step{opened("9", 9, 9, 3), chunk(9, " brown"), durable(9)},
			want: reading{Text: "The quick brown", Produced: 15, Durable: 9, Status: "streaming", Link: "live", URLs: []string{url("9", "live")}, Open: 1},
		},
		"growing text makes no new connection": {
			steps: []step{start, chunk(0, "abc"), durable(3), chunk(3, "d"), chunk(4, "e"), durable(5)},
			want:  reading{Text: "abcde", Produced: 5, Durable: 5, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"a chunk is put at its own offset": {
			steps: []step{start, chunk(0, "abcdef"), chunk(3, "defghi"), chunk(0, "abc"), chunk(2, "")},
			want:  reading{Text: "abcdefghi", Produced: 9, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"a gap is read again from the beginning": {
			steps: []step{start, chunk(0, "abc"), chunk(9, "z"), start, chunk(0, "abcdefghiz")},
			want:  reading{Text: "abcdefghiz", Produced: 10, Status: "streaming", Link: "live", URLs: []string{url("0", "live"), url("0%401", "live")}, Open: 1},
		},
		"a chunk that does not span its offsets is not shown": {
			steps: []step{start, chunk(0, "abc"), {"f": map[string]any{"type": "chunk", "from": 3, "seq": 9, "text": "z"}}},
			want:  reading{Text: "abc", Produced: 3, Status: "streaming", Link: "connecting", URLs: []string{url("0", "live"), url("0%401", "live")}, Open: 1},
		},
		"an overlap with other text is read again": {
			steps: []step{start, chunk(0, "abc"), chunk(1, "XYZ"), start, chunk(0, "aXYZ")},
			want:  reading{Text: "aXYZ", Produced: 4, Status: "streaming", Link: "live", URLs: []string{url("0", "live"), url("0%401", "live")}, Open: 1},
		},
		"what is no JSON is read again": {
			steps: []step{start, chunk(0, "ab"), {"raw": "{"}},
			want:  reading{Text: "ab", Produced: 2, Status: "streaming", Link: "connecting", URLs: []string{url("0", "live"), url("0%401", "live")}, Open: 1},
		},
		"an open of another stream is refused": {
			steps: []step{{"id": "0", "f": map[string]any{"type": "open", "streamId": "m2", "from": 0, "seq": 1, "durableSeq": 0}}, late(0, chunk(0, "a"))},
			want:  reading{Link: "connecting", URLs: []string{url("0", "live"), url("0", "live")}, Open: 1},
		},
		"an open past what is held is refused": {
			text: "ab", steps: []step{opened("5", 5, 9, 0)},
			want: reading{Text: "ab", Produced: 2, Link: "connecting", URLs: []string{url("2", "live"), url("0", "live")}, Open: 1},
		},
		"a replay of the same epoch shortens nothing": {
			steps: []step{start, chunk(0, "abcdef"), opened("0", 0, 6, 2), chunk(0, "abc"), chunk(3, "defg")}, grows: true,
			want: reading{Text: "abcdefg", Produced: 7, Durable: 2, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"a newer epoch takes back what it does not have": {
			steps: []step{start, chunk(0, "abcdef"), opened("2@2", 2, 2, 2), chunk(2, "XY")},
			want:  reading{Text: "abXY", Produced: 4, Durable: 2, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"text that turns out other is taken back": {
			steps: []step{start, chunk(0, "abcdef"), opened("0", 0, 6, 2), chunk(0, "abX")},
			want:  reading{Text: "abX", Produced: 6, Durable: 2, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"the end closes for good": {
			steps: []step{start, chunk(0, "done"), ended(4, "complete"), late(0, chunk(4, "MORE"))},
			want:  reading{Text: "done", Produced: 4, Durable: 4, Status: "complete", Link: "closed", URLs: []string{url("0", "live")}},
		},
		"an end that lost text says how much is durable": {
			steps: []step{start, chunk(0, "abcd"), ended(2, "interrupted")},
			want:  reading{Text: "abcd", Produced: 4, Durable: 2, Status: "interrupted", Link: "closed", URLs: []string{url("0", "live")}},
		},
		"an end past what came is read again": {
			steps: []step{start, chunk(0, "ab"), ended(4, "complete"), start, chunk(0, "abcd"), ended(4, "complete")},
			want:  reading{Text: "abcd", Produced: 4, Durable: 4, Status: "complete", Link: "closed", URLs: []string{url("0", "live"), url("0%401", "live")}},
		},
		"stale goes on in the durable text, from the offset held": {
			steps: []step{start, chunk(0, "abcd"), stale(), opened("2", 2, 2, 2), chunk(2, "cde"), ended(5, "complete")},
			want:  reading{Text: "abcde", Produced: 5, Durable: 5, Status: "complete", Link: "closed", URLs: []string{url("0", "live"), url("4%401", "durable")}},
		},
		"absent goes on in the durable text": {
			text: "so far", steps: []step{absent(), opened("6", 6, 6, 6), late(0, chunk(6, "X")), chunk(6, "!")},
			want: reading{Text: "so far!", Produced: 7, Durable: 6, Status: "streaming", Link: "durable", URLs: []string{url("6", "live"), url("6", "durable")}, Open: 1},
		},
		"the live text is tried again from the durable one": {
			steps: []step{absent(), opened("0", 0, 2, 2), chunk(0, "ab"), {"wait": true}, opened("2", 2, 3, 2), chunk(2, "c")},
			want:  reading{Text: "abc", Produced: 3, Durable: 2, Status: "streaming", Link: "live", URLs: []string{url("0", "live"), url("0", "durable"), url("2%401", "live")}, Open: 1},
		},
		"absent from both tries again live": {
			steps: []step{absent(), absent()},
			want:  reading{Link: "connecting", URLs: []string{url("0", "live"), url("0", "durable"), url("0", "live")}, Open: 1},
		},
		"a resume names its epoch": {
			steps: []step{opened("0@3", 0, 0, 0), chunk(0, "ab"), {"refused": true}}, answers: []int{503},
			want: reading{Text: "ab", Produced: 2, Status: "streaming", Link: "connecting", Code: "c", URLs: []string{url("0", "live"), url("2%403", "live")}, Open: 1},
		},
		"an empty answer is asked again, without the last id": {
			steps: []step{start, chunk(0, "ab"), {"refused": true}, opened("2", 2, 2, 2), ended(2, "complete")}, answers: []int{200},
			want: reading{Text: "ab", Produced: 2, Durable: 2, Status: "complete", Link: "closed", URLs: []string{url("0", "live"), url("2%401", "live")}},
		},
		"a denial is final": {
			steps: []step{{"refused": true}}, answers: []int{403},
			want: reading{Link: "closed", Code: "c", URLs: []string{url("0", "live")}},
		},
		"an unknown type is passed over": {
			steps: []step{start, {"f": map[string]any{"type": "heartbeat"}}, chunk(0, "a")},
			want:  reading{Text: "a", Produced: 1, Status: "streaming", Link: "live", URLs: []string{url("0", "live")}, Open: 1},
		},
		"what comes after close is ignored": {
			steps: []step{start, chunk(0, "ab"), {"close": true}, late(0, chunk(2, "cd"))},
			want:  reading{Text: "ab", Produced: 2, Status: "streaming", Link: "closed", URLs: []string{url("0", "live")}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &page{TB: t, url: p.url, ctx: p.ctx}
			answers := tt.answers
			if answers == nil {
				answers = []int{}
			}
			got := eval[reading](p, fmt.Sprintf(stub, quote(t, answers), `"m1"`, quote(t, tt.text), quote(t, tt.steps)))
			shown := got.Shown
			got.Shown = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want-, got+:\n%s", diff)
			}
			for i := 1; tt.grows && i < len(shown); i++ {
				if len(shown[i]) < len(shown[i-1]) {
					t.Errorf("%q is shown after %q", shown[i], shown[i-1])
				}
			}
		})
	}
}

func quote(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
