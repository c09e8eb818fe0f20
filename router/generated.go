package router

import (
	"encoding/json"
	"strings"
	"unicode"
)

// What is kept of what a provider says beside the text, in bytes.
const (
	maxWord  = 128
	maxUsage = 4 << 10
)

// word is a provider's name for something, as it is kept.
func word(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
	if len(s) > maxWord {
		s = strings.ToValidUTF8(s[:maxWord], "")
	}
	return s
}

// storable is a provider's JSON as every store takes it, nil if it is too long or can't
// be: JSON in PostgreSQL has no NUL, no half of a character and no endless number.
func storable(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || len(raw) > maxUsage {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	clean, err := json.Marshal(v)
	if err != nil || strings.Contains(string(clean), `\u0000`) {
		return nil
	}
	return clean
}
