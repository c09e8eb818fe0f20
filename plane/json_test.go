package plane_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
)

func TestAppendJSONWritesEachFrameByteForByte(t *testing.T) {
	failed := func(message string) plane.Frame {
		f := end(9, plane.StatusError)
		f.Error, f.HasError = message, true
		return f
	}
	ended := open(5, 9, 7)
	ended.Ended = true
	other := open(0, 0, 0)
	other.StreamID = `a"/é<1>`
	tests := []struct {
		name  string
		frame plane.Frame
		want  string
	}{
		{"open", open(0, 12, 8), `{"type":"open","streamId":"m1","from":0,"seq":12,"durableSeq":8,"ended":false}`},
		{"open of an ended stream", ended, `{"type":"open","streamId":"m1","from":5,"seq":9,"durableSeq":7,"ended":true}`},
		{"open of an odd id", other, `{"type":"open","streamId":"a\"/é<1>","from":0,"seq":0,"durableSeq":0,"ended":false}`},
		{"chunk", chunk(3, "a\n\nb"), `{"type":"chunk","from":3,"seq":7,"text":"a\n\nb"}`},
		{"empty chunk", chunk(3, ""), `{"type":"chunk","from":3,"seq":3,"text":""}`},
		{"durable", durable(0), `{"type":"durable","seq":0}`},
		{"largest offset", durable(plane.MaxOffset), `{"type":"durable","seq":9007199254740991}`},
		{"end", end(9, plane.StatusComplete), `{"type":"end","seq":9,"status":"complete"}`},
		{"end with an error", failed("line1\nline2"), `{"type":"end","seq":9,"status":"error","error":"line1\nline2"}`},
		{"end with an empty error", failed(""), `{"type":"end","seq":9,"status":"error","error":""}`},
		{"stale", stale(16, 12), `{"type":"stale","floorSeq":16,"durableSeq":12}`},
		{"absent", plane.Frame{Kind: plane.KindAbsent}, `{"type":"absent"}`},
		{"epoch is not part of it", inEpoch(4, durable(1)), `{"type":"durable","seq":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(plane.AppendJSON([]byte("data: "), tt.frame))
			if got != "data: "+tt.want {
				t.Errorf("got  %s\nwant data: %s", got, tt.want)
			}
		})
	}
}

func TestAppendStringEscapesWhatJavaScriptEscapes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", ``},
		{"quotes and backslashes", `say "a\b"`, `say \"a\\b\"`},
		{"short escapes", "\b\t\n\f\r", `\b\t\n\f\r`},
		{"other controls", "\x00\x01\x0b\x1b\x1f", `\u0000\u0001\u000b\u001b\u001f`},
		{"no HTML", "<a&b>'/", `<a&b>'/`},
		{"no line separators", "\u2028\u2029\u0085\u007f", "\u2028\u2029\u0085\u007f"},
		{"no noncharacters", "\ufeff\ufffd\ufffe\uffff", "\ufeff\ufffd\ufffe\uffff"},
		{"no astral characters", "👨‍👩 é漢", "👨‍👩 é漢"},
		{"lone high half", "a\xed\xa0\xbd", `a\ud83d`},
		{"lone low half", "\xed\xb8\x80b", `\ude00b`},
		{"halves in the wrong order", "\xed\xb8\x80\xed\xa0\xbd", `\ude00\ud83d`},
		{"halves that make a pair", "\xed\xa0\xbd\xed\xb8\x80", `😀`},
		{"half beside an escape", "\n\xed\xa0\xbd\"é", `\n\ud83d\"é`},
		{"bytes that are no UTF-8", "a\xffb\x80", "a\ufffdb\ufffd"},
		{"cut sequence", "a\xe6\xbc", "a\ufffd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(plane.AppendJSONString(nil, tt.text)); got != `"`+tt.want+`"` {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}

func TestAppendStringFindsAnEscapeAtEveryPlace(t *testing.T) {
	for _, c := range []string{`"`, `\`, "\x00", "\x1f", "\n", "\x7f", "é", "!", "[", "]", "#"} {
		for n := range 20 {
			for m := range 20 {
				text := strings.Repeat("x", n) + c + strings.Repeat("\x21", m) + c
				got := plane.AppendJSONString(nil, text)
				var back string
				if err := json.Unmarshal(got, &back); err != nil || back != text {
					t.Fatalf("%q is written as %s and read as %q, %v", text, got, back, err)
				}
			}
		}
	}
}

func TestAppendStringIsReadBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		literal := plane.AppendJSONString(nil, text)
		var std string
		if err := json.Unmarshal(literal, &std); err != nil || std != text {
			t.Fatalf("%s is read as %q, %v", literal, std, err)
		}
		ours, err := plane.UnescapeJSON([]byte("-"), literal)
		if err != nil || string(ours) != "-"+text {
			t.Fatalf("%s is unescaped to %q, %v", literal, ours, err)
		}
	})
}

func TestAppendJSONAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	for _, f := range []plane.Frame{open(0, 12, 8), chunk(3, "a\n\"😀é\" b"), durable(3), end(9, plane.StatusComplete)} {
		if n := testing.AllocsPerRun(100, func() { plane.AppendJSON(dst, f) }); n != 0 {
			t.Errorf("%s: %v allocations", f.Kind, n)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	for _, bm := range []struct{ name, text string }{
		{"16B", long(16)},
		{"64KiB", long(64 << 10)},
		{"64KiB prose with escapes", strings.Repeat("a line of some \"prose\", as it is\n", 2<<10)},
		{"64KiB wide", strings.Repeat("漢字かな é", 64<<10/15)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			f := chunk(1000, bm.text)
			dst := make([]byte, 0, 2*len(bm.text)+100)
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				dst = plane.AppendJSON(dst[:0], f)
			}
		})
	}
}
