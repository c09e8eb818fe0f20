package upstream

import (
	"encoding/json"
)

// openAI reads chat completions.
type openAI struct {
	in     *intake
	choice bool // something of choice 0 was seen
}

// completion is a chunk of a streamed completion, or a whole one. Scalars are
// left raw, so that one of an unexpected type does no harm.
type completion struct {
	Type    json.RawMessage `json:"type"`
	Object  json.RawMessage `json:"object"`
	Model   json.RawMessage `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        json.RawMessage `json:"index"`
	Delta        json.RawMessage `json:"delta"`   // of a chunk
	Message      json.RawMessage `json:"message"` // of a whole completion
	Text         json.RawMessage `json:"text"`    // of the older completions, in both
	FinishReason json.RawMessage `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

func (d *openAI) done() error {
	if !d.choice {
		return ErrEmpty
	}
	return nil
}

func (d *openAI) event(data []byte) (bool, error) {
	return false, d.take(data, func(c choice) json.RawMessage { return c.Delta })
}

func (d *openAI) whole(body []byte) error {
	if err := d.take(body, func(c choice) json.RawMessage { return c.Message }); err != nil {
		return err
	}
	if !d.choice {
		return &DataError{What: "is no completion"}
	}
	return nil
}

// take takes a chunk or a whole completion; message says where its text is.
func (d *openAI) take(data []byte, message func(choice) json.RawMessage) error {
	var c completion
	if json.Unmarshal(data, &c) != nil {
		return d.in.malformed("is no chat completion")
	}
	if d.in.sum.Model == "" {
		d.in.sum.Model = scalar(c.Model)
	}
	if !blank(c.Usage) {
		d.in.sum.Usage = c.Usage
	}
	for i, ch := range c.Choices {
		if !isFirst(ch.Index, i) {
			d.in.sum.Skipped++
			continue
		}
		d.choice = true
		d.message(message(ch))
		if message(ch) == nil {
			d.in.content(ch.Text)
		}
		if err := d.finishReason(ch); err != nil {
			return err
		}
	}
	if reported(c.Error) || scalar(c.Type) == "error" || scalar(c.Object) == "error" {
		return newError(data)
	}
	return nil
}

// message hands on the content of a delta or a message and counts what else is
// in it: reasoning, tool calls, a refusal, audio.
func (d *openAI) message(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return // null, or an empty list in place of an empty object
	}
	for name, value := range fields {
		if name != "content" && name != "role" && !blank(value) {
			d.in.sum.Skipped++
		}
	}
	d.in.content(fields["content"])
}

// finishReason notes how choice 0 ended, if it has.
func (d *openAI) finishReason(ch choice) error {
	if reported(ch.Error) {
		return newError(ch.Error)
	}
	reason := scalar(ch.FinishReason)
	switch reason {
	case "", "false":
		return nil
	case "error":
		return &Error{Type: reason}
	}
	d.in.sum.FinishReason = reason
	return nil
}

// isFirst reports whether a choice is choice 0: by its index, or by its place
// where it has none.
func isFirst(index json.RawMessage, place int) bool {
	if blank(index) {
		return place == 0
	}
	return string(index) == "0"
}
