package main

import (
	"context"
	"iter"
	"strings"
	"time"
	"unicode"
)

// words yields the deltas of a source word by word, each with the space after it.
func words(source iter.Seq2[string, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for delta, err := range source {
			for err == nil && delta != "" {
				end := wordEnd(delta)
				if !yield(delta[:end], nil) {
					return
				}
				delta = delta[end:]
			}
			if err != nil && !yield("", err) {
				return
			}
		}
	}
}

// wordEnd is where the first word of text ends, and the space after it.
func wordEnd(text string) int {
	word := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
	if word < 0 {
		return len(text)
	}
	space := strings.IndexFunc(text[word:], unicode.IsSpace)
	if space < 0 {
		return len(text)
	}
	next := strings.IndexFunc(text[word+space:], func(r rune) bool { return !unicode.IsSpace(r) })
	if next < 0 {
		return len(text)
	}
	return word + space + next
}

// paced yields no more than rate deltas of a source a second. Who was late does not
// make up for it.
func paced(ctx context.Context, source iter.Seq2[string, error], rate int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for delta, err := range source {
			select {
			case <-tick.C:
			case <-ctx.Done():
				yield("", context.Cause(ctx))
				return
			}
			if !yield(delta, err) {
				return
			}
		}
	}
}
