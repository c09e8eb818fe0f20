package feed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/feed"
)

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                 "",
		"no JSON":                 "{",
		"more than one JSON":      `{"changes":[]}{}`,
		"no object":               "[]",
		"null":                    "null",
		"no changes":              "{}",
		"changes that are none":   `{"changes":null}`,
		"changes of another kind": `{"changes":{}}`,
		"a change of another":     `{"changes":[1]}`,
		"no id":                   `{"changes":[{"seq":1}]}`,
		"an empty id":             `{"changes":[{"id":"","seq":1}]}`,
		"an id of another kind":   `{"changes":[{"id":1,"seq":1}]}`,
		"no length":               `{"changes":[{"id":"s"}]}`,
		"a length of another":     `{"changes":[{"id":"s","seq":"1"}]}`,
		"a broken length":         `{"changes":[{"id":"s","seq":1.5}]}`,
		"a negative length":       `{"changes":[{"id":"s","seq":-1}]}`,
		"a length past all":       `{"changes":[{"id":"s","seq":9223372036854775808}]}`,
		"a negative epoch":        `{"changes":[{"id":"s","seq":1,"epoch":-1}]}`,
		"an unknown status":       `{"changes":[{"id":"s","seq":1,"status":"COMPLETE"}]}`,
		"a status of another":     `{"changes":[{"id":"s","seq":1,"status":1}]}`,
		"a cancel of another":     `{"changes":[{"id":"s","seq":1,"cancel":"yes"}]}`,
		"one good, one bad":       `{"changes":[{"id":"s","seq":1},{"id":"t"}]}`,
		"no UTF-8":                "{\"changes\":[{\"id\":\"\xff\",\"seq\":1}]}",
		"too many bytes":          `{"changes":[{"id":"` + strings.Repeat("a", 8000) + `","seq":1}]}`,
	} {
		if e, err := feed.Parse(text); !errors.Is(err, feed.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestAProducerOrANumberThatIsUnusableIsNone(t *testing.T) {
	for text, want := range map[string]feed.Envelope{
		`"producer":"p","seq":3`:                               {Producer: "p", Seq: 3},
		`"producer":"p"`:                                       {Producer: "p"},
		`"producer":"p","seq":"3"`:                             {Producer: "p"},
		`"producer":"p","seq":null`:                            {Producer: "p"},
		`"producer":"p","seq":1e400`:                           {Producer: "p"},
		`"producer":"p","seq":0`:                               {Producer: "p"},
		`"producer":5,"seq":3`:                                 {Seq: 3},
		`"producer":null,"seq":3`:                              {Seq: 3},
		`"producer":["p"],"seq":[3]`:                           {},
		`"other":1`:                                            {},
		`"producer":"` + strings.Repeat("p", 65) + `","seq":3`: {Seq: 3},
	} {
		got, err := feed.Parse(`{"changes":[{"id":"s","seq":1}],` + text + `}`)
		want.Changes = []feed.Change{{ID: "s", Seq: 1}}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "{", "null", "[]", `{"changes":[]}`, `{"changes":[],"producer":"p","seq":7}`,
		`{"changes":[{"id":"s","seq":3,"epoch":2,"status":"complete","cancel":true}],"producer":"p","seq":1}`,
		`{"changes" : [{"id" : "\"\\\u2028\ud83d\ude00😀", "seq" : 0, "cancel" : true}]}`,
		`{"changes":[{"id":"\ud83d","seq":1}],"seq":1e400,"producer":5}`,
		`{"changes":[{"ID":"s","seq":1,"seq":2}],"Seq":9223372036854775807,"producer":"p"}`,
		`{"entity":"posts","op":"update","lsn":"0000000000000010","seq":1,"producer":"p"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := feed.Parse(text)
		if err != nil {
			if !errors.Is(err, feed.ErrMalformed) || e.Changes != nil {
				t.Fatalf("%+v, %v", e, err)
			}
			return
		}
		if len(text) > feed.MaxMessage || e.Seq < 0 {
			t.Fatalf("%d bytes, %+v", len(text), e)
		}
		// What was understood, said again, is the same.
		again := feed.Append(nil, e)
		if len(again) > feed.MaxMessage {
			return // it was shorter in other words
		}
		back, err := feed.Parse(string(again))
		if diff := cmp.Diff(e, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%q, %v\n%s", text, err, diff)
		}
	})
}

func TestChangesOfNobodysRunFillMessages(t *testing.T) {
	var changes []feed.Change
	for n := range 500 {
		changes = append(changes, feed.Change{ID: fmt.Sprintf("%s %d", strings.Repeat("é\"", n%90), n), Seq: int64(n), Epoch: 1, Status: plane.StatusInterrupted})
	}
	unsaid := feed.Change{ID: strings.Repeat("x", feed.MaxMessage), Status: plane.StatusInterrupted}
	messages := feed.Messages(append([]feed.Change{unsaid}, changes...))
	var got []feed.Change
	for _, m := range messages {
		e, err := feed.Parse(m)
		if err != nil || e.Producer != "" || e.Seq != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		got = append(got, e.Changes...)
	}
	if diff := cmp.Diff(changes, got); diff != "" || len(messages) > 40 {
		t.Errorf("%d messages: %s", len(messages), diff)
	}
	if none := feed.Messages(nil); len(none) > 0 {
		t.Errorf("of nothing: %q", none)
	}
}
