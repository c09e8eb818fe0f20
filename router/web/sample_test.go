package web_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/router/web"
)

func TestSampleIsPlayedAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		before := began
		var text strings.Builder
		deltas := 0
		for delta, err := range web.Play(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			pause := time.Since(before)
			if pause < 20*time.Millisecond || pause > 60*time.Millisecond {
				t.Errorf("delta %d comes after %v", deltas, pause)
			}
			if n := utf8.RuneCountInString(delta); n == 0 || n > 12 {
				t.Errorf("delta %d has %d characters", deltas, n)
			}
			before = time.Now()
			text.WriteString(delta)
			deltas++
		}
		if deltas < 400 {
			t.Errorf("got %d deltas", deltas)
		}
		if took := time.Since(began); took < 10*time.Second || took > 25*time.Second {
			t.Errorf("took %v", took)
		}
		if text.String() != web.SampleText() {
			t.Error("what is played is not the sample's text")
		}
	})
}

func TestSampleStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		began := time.Now()
		var last error
		yields := 0
		for delta, err := range web.Play(ctx) {
			if last != nil {
				t.Fatalf("goes on with %q after an error", delta)
			}
			last = err
			yields++
		}
		if !errors.Is(last, cause) || time.Since(began) != time.Second || yields < 10 {
			t.Errorf("got %v after %v and %d deltas", last, time.Since(began), yields)
		}
	})
}

func TestSampleMayBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range web.Play(t.Context()) {
			break
		}
	})
}

func TestSampleHasAllKindsOfText(t *testing.T) {
	text := web.SampleText()
	for what, part := range map[string]string{
		"a surrogate pair":     "😀",
		"a joined emoji":       "👩‍👩‍👧‍👦",
		"a flag":               "🇳🇿",
		"a table":              "|------|",
		"code":                 "```js",
		"Arabic":               "السلام",
		"Hebrew":               "שלום",
		"a combining accent":   "e\u0301",
		"what looks like tags": "<script>",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("sample lacks %s", what)
		}
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		t.Error("sample is not text as a stream takes it")
	}
}
