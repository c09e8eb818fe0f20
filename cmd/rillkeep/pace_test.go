package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func source(err error, deltas ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, delta := range deltas {
			if !yield(delta, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func TestWordsAreTheTextInPieces(t *testing.T) {
	for name, tt := range map[string]struct {
		deltas, want []string
	}{
		"words":            {[]string{"one two  three\n"}, []string{"one ", "two  ", "three\n"}},
		"space before":     {[]string{"  one two"}, []string{"  one ", "two"}},
		"space only":       {[]string{" \n "}, []string{" \n "}},
		"several deltas":   {[]string{"on", "e two"}, []string{"on", "e ", "two"}},
		"no ASCII":         {[]string{"Grüße\u00a0日本 😀"}, []string{"Grüße\u00a0", "日本 ", "😀"}},
		"bytes of a delta": {[]string{"a \xf0\x9f"}, []string{"a ", "\xf0\x9f"}},
		"nothing":          {[]string{""}, nil},
	} {
		var got []string
		for delta, err := range words(source(nil, tt.deltas...)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, delta)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || strings.Join(got, "") != strings.Join(tt.deltas, "") {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestASourceIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("broke off")
		began, n := time.Now(), 0
		for delta, err := range paced(t.Context(), source(failed, "a", "b", "c"), 10) {
			if n++; time.Since(began) != time.Duration(n)*100*time.Millisecond || (delta == "") != errors.Is(err, failed) {
				t.Errorf("%q, %v after %v", delta, err, time.Since(began))
			}
		}
		if n != 4 {
			t.Errorf("%d came", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for delta, err := range paced(ctx, source(nil, "a"), 1) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%q, %v of one that is over", delta, err)
			}
		}
	})
}
