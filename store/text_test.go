package store_test

import (
	"testing"

	"rillkeep.dev/rillkeep/store"
)

func TestSoundTextIsUTF8WithoutNUL(t *testing.T) {
	for text, want := range map[string]string{"": "", "é 😀\n": "é 😀\n", "a\x00b\xffc": "a\uFFFDb\uFFFDc"} {
		if got := store.Sound(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
