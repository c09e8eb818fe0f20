package plane_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

func TestParseFrameReadsWhatItUnderstands(t *testing.T) {
	failed := end(2, plane.StatusError)
	failed.HasError = true
	tests := []struct {
		name, in string
		want     plane.Frame
	}{
		{"any order, any space", " {\t\"seq\" : 7,\r\n\"type\":\"durable\"} ", durable(7)},
		{"fraction that is none", `{"type":"durable","seq":3.0}`, durable(3)},
		{"exponent", `{"type":"durable","seq":30E-1}`, durable(3)},
		{"negative zero", `{"type":"durable","seq":-0}`, durable(0)},
		{"largest offset", `{"type":"durable","seq":9007199254740991}`, durable(plane.MaxOffset)},
		{"last of repeated keys", `{"type":"end","seq":"x","type":"durable","seq":1,"seq":2}`, durable(2)},
		{"escaped key", `{"\u0074ype":"durable","s\u0065q":2}`, durable(2)},
		{"key in another case is another", `{"type":"durable","seq":2,"Seq":3}`, durable(2)},
		{"unknown keys", `{"type":"durable","x":{"seq":[9,"}"]},"y":null,"seq":2,"z":[[],{}]}`, durable(2)},
		{"empty error", `{"type":"end","seq":2,"status":"error","error":""}`, failed},
		{"half of a pair", `{"type":"chunk","from":0,"seq":2,"text":"a\uD83D"}`, chunk(0, "a\xed\xa0\xbd")},
		{"pair", `{"type":"chunk","from":0,"seq":2,"text":"\uD83d\ude00"}`, chunk(0, "😀")},
		{"bytes that are no UTF-8", "{\"type\":\"chunk\",\"from\":0,\"seq\":2,\"text\":\"a\xff\"}", chunk(0, "a\ufffd")},
		{"unknown type", `{"type":"heartbeat","seq":"x"}`, plane.Frame{Kind: "heartbeat"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := plane.ParseFrame([]byte(tt.in))
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseFrameRefusesWhatIsNoFrame(t *testing.T) {
	for _, in := range []string{
		``, ` `, `null`, `7`, `[]`, `"chunk"`, `{}`, `{"seq":1}`, `{"type":null}`, `{"type":["open"]}`,
		`{"type":"absent"`, `{"type":"absent"}x`, `{"type":"absent",}`, `{"type" "absent"}`, `{type:"absent"}`,
		`{"type":"absent","x":}`, `{"type":"absent","x":[}`, `{"type":"absent","x":[1,]}`, `{"type":"absent","x":{"y"}}`,
		`{"type":"absent","x":"` + "\n" + `"}`, `{"type":"absent","x":"\x"}`, `{"type":"absent","x":"\u12"}`,
		`{"type":"absent","x":"\ud8g0"}`, `{"type":"absent","x":01}`, `{"type":"absent","x":1.}`, `{"type":"absent","x":.5}`,
		`{"type":"absent","x":+1}`, `{"type":"absent","x":1e}`, `{"type":"absent","x":-}`, `{"type":"absent","x":nul}`,
		"\ufeff" + `{"type":"absent"}`, "{\"type\":\"absent\"}\x00",
	} {
		if f, err := plane.ParseFrame([]byte(in)); !errors.Is(err, plane.BrokenFrame) {
			t.Errorf("%s: got %+v, %v", in, f, err)
		}
	}
}

func TestParseFrameLeavesBadFieldsToTheRules(t *testing.T) {
	tests := []struct {
		name, in string
		want     plane.Violation // "" for a frame that vanishes
	}{
		{"past the largest offset", `{"type":"chunk","from":9007199254740992,"seq":9007199254740992,"text":""}`, plane.ChunkSpan},
		{"offset that a float rounds", `{"type":"end","seq":9007199254740993,"status":"complete"}`, plane.EndMalformed},
		{"fraction", `{"type":"end","seq":0.5,"status":"complete"}`, plane.EndMalformed},
		{"text is no string", `{"type":"chunk","from":0,"seq":1,"text":["a"]}`, plane.ChunkSpan},
		{"text is an object that looks like one", `{"type":"chunk","from":0,"seq":0,"text":{}}`, plane.ChunkSpan},
		{"ended is no boolean", `{"type":"open","streamId":"m1","from":0,"seq":0,"durableSeq":0,"ended":0}`, plane.OpenMalformed},
		{"id is no string", `{"type":"open","streamId":1,"from":0,"seq":0,"durableSeq":0,"ended":true}`, plane.OpenMalformed},
		{"durable past seq", `{"type":"open","streamId":"m1","from":0,"seq":0,"durableSeq":1,"ended":true}`, plane.OpenMalformed},
		{"unknown status", `{"type":"end","seq":0,"status":"streaming"}`, plane.EndMalformed},
		{"error is null", `{"type":"end","seq":0,"status":"error","error":null}`, plane.EndMalformed},
		{"durable", `{"type":"durable","seq":"0"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := pass(t, "m1", 0, []string{tt.in})
			if codes := strings.Join(got.Codes, " "); codes != string(tt.want) {
				t.Errorf("violations %q, want %q", codes, tt.want)
			}
			if tt.want == "" && got.Frames != "" {
				t.Errorf("got %s", got.Frames)
			}
		})
	}
}

func TestParseFrameKeepsNothingOfItsInput(t *testing.T) {
	data := []byte(`{"type":"chunk","from":0,"seq":5,"text":"hello"}`)
	f, err := plane.ParseFrame(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = '!'
	}
	if f != chunk(0, "hello") {
		t.Errorf("got %+v", f)
	}
}

func TestUnescapeJSONGivesWTF8(t *testing.T) {
	tests := []struct{ in, want string }{
		{`""`, ""},
		{`"plain"`, "plain"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u0000\u001F\u00e9\u6f22\uFFFF"`, "\x00\x1fé漢\uffff"},
		{`"\ud83d"`, "\xed\xa0\xbd"},
		{`"\ude00x"`, "\xed\xb8\x80x"},
		{`"\ud83d\ude00"`, "😀"},
		{`"\ud83d\ud83d\ude00\ude00"`, "\xed\xa0\xbd😀\xed\xb8\x80"},
		{`"\ud83dx\ude00"`, "\xed\xa0\xbdx\xed\xb8\x80"},
		{"\"\xed\xa0\xbd\\ude00\"", "😀"},
		{"\"a\xc3\"", "a\ufffd"},
		{"\"\x7f\u2028\"", "\x7f\u2028"},
	}
	for _, tt := range tests {
		got, err := plane.UnescapeJSON([]byte("\xed\xa0\xbd"), []byte(tt.in))
		if err != nil || string(got) != "\xed\xa0\xbd"+tt.want {
			t.Errorf("%s: got %q, %v, want %q behind what was there", tt.in, got, err, tt.want)
		}
	}
}

func TestUnescapeJSONRefusesWhatIsNoLiteral(t *testing.T) {
	for _, in := range []string{
		``, `"`, `a`, `"a`, `a"`, ` "a"`, `"a" `, `"a"b"`, "\"\n\"", "\"\x00\"", `"\"`, `"\x"`, `"\u"`, `"\u123"`, `"\u123g"`,
		`"\U0041"`, `"\u+123"`, `'a'`, `null`,
	} {
		if got, err := plane.UnescapeJSON([]byte("kept"), []byte(in)); err == nil || string(got) != "kept" {
			t.Errorf("%s: got %q, %v", in, got, err)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, c := range recordedCases[conformCase](f, "conform.json") {
		for _, in := range c.source(f) {
			f.Add([]byte(in))
		}
	}
	f.Add([]byte(`{"type":"chunk","from":0,"seq":3,"text":"\ud83d\ude00\u0041","x":[{"y":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := plane.ParseFrame(data)
		if want := stdParses(data); (err == nil) != want {
			t.Fatalf("error %v, but encoding/json says %v", err, want)
		}
		if err != nil {
			return
		}
		first := plane.AppendJSON(nil, got)
		if !json.Valid(first) || !utf8.Valid(first) {
			t.Fatalf("written as %q", first)
		}
		again, err := plane.ParseFrame(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second := plane.AppendJSON(nil, again); string(first) != string(second) {
			t.Fatalf("%s is read and written as %s", first, second)
		}
		if got.Kind == plane.KindChunk && !strings.Contains(string(data), `\u`) {
			var std string
			err := json.Unmarshal(stdFields(data)["text"], &std)
			if err == nil && utf8.Valid(data) && std != got.Text {
				t.Fatalf("text %q, encoding/json has %q", got.Text, std)
			}
		}
	})
}

func stdFields(data []byte) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	return fields
}

// stdParses reports whether data is an object whose type is a string.
func stdParses(data []byte) bool {
	var kind *string
	return json.Unmarshal(stdFields(data)["type"], &kind) == nil && kind != nil
}

func BenchmarkParseFrame(b *testing.B) {
	for _, text := range []string{"token ", "two\nlines", long(4096)} {
		b.Run("", func(b *testing.B) {
			data := plane.AppendJSON(nil, chunk(1000, text))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plane.ParseFrame(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
