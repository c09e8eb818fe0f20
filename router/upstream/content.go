package upstream

import (
	"bytes"
	"encoding/json"

	"rillkeep.dev/rillkeep/plane"
)

// str returns the value of a JSON string, halves of surrogate pairs kept, and
// whether raw is one: encoding/json would make U+FFFD of a half.
func str(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	text, err := plane.UnescapeJSON(nil, raw)
	return string(text), err == nil
}

// elements returns the elements of a JSON array; nil if raw is none.
func elements(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// blank reports whether raw says nothing.
func blank(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "[]", "{}":
		return true
	default:
		return false
	}
}

// content hands on the text of a message's content: a string, a part, or a list
// of these. Parts that are not text are skipped and counted.
func (in *intake) content(raw json.RawMessage) {
	if text, ok := str(raw); ok {
		in.emit(text)
		return
	}
	if list := elements(raw); list != nil {
		for _, part := range list {
			in.part(part)
		}
		return
	}
	if !blank(raw) {
		in.part(raw)
	}
}

func (in *intake) part(raw json.RawMessage) {
	if text, ok := str(raw); ok {
		in.emit(text)
		return
	}
	var p struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	_ = json.Unmarshal(raw, &p) // what is no part has no text
	text, ok := str(p.Text)
	if !ok || p.Type != "text" && p.Type != "output_text" && p.Type != "text_delta" && p.Type != "" {
		in.sum.Skipped++
		return
	}
	in.emit(text)
}
