package upstream

import (
	"encoding/json"
)

// anthropic reads messages.
type anthropic struct {
	in     *intake
	finish bool // a stop reason was seen
}

// message is a message, whole or the part of it that an event brings.
type message struct {
	Type       string          `json:"type"`
	Model      json.RawMessage `json:"model"`
	Content    json.RawMessage `json:"content"`
	StopReason json.RawMessage `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
	Error      json.RawMessage `json:"error"`

	Message      *message        `json:"message"`       // message_start
	ContentBlock json.RawMessage `json:"content_block"` // content_block_start
	Delta        json.RawMessage `json:"delta"`         // content_block_delta, message_delta
}

func (d *anthropic) done() error {
	if !d.finish {
		return ErrTruncated
	}
	return nil
}

func (d *anthropic) event(data []byte) (bool, error) {
	var m message
	if json.Unmarshal(data, &m) != nil {
		return false, d.in.malformed("is no event of a message")
	}
	if reported(m.Error) {
		return false, newError(data)
	}
	switch m.Type {
	case "message_start":
		if m.Message != nil {
			d.in.content(m.Message.Content)
			d.about(*m.Message)
		}
	case "content_block_start":
		d.in.part(m.ContentBlock)
	case "content_block_delta":
		d.in.part(m.Delta)
	case "message_delta":
		var delta message
		if !blank(m.Delta) && json.Unmarshal(m.Delta, &delta) != nil {
			return false, d.in.malformed("is no event of a message")
		}
		delta.Usage = m.Usage
		d.about(delta)
	case "message_stop":
		return true, nil
	case "error":
		return false, newError(data)
	case "content_block_stop", "ping":
	default:
		d.in.sum.Skipped++
	}
	return false, nil
}

func (d *anthropic) whole(body []byte) error {
	var m message
	switch {
	case json.Unmarshal(body, &m) != nil:
		return &DataError{What: "is no message"}
	case reported(m.Error) || m.Type == "error":
		return newError(body)
	case m.Type != "message":
		return &DataError{What: "is no message"}
	}
	d.in.content(m.Content)
	d.about(m)
	return nil
}

// about notes what m says of the response.
func (d *anthropic) about(m message) {
	if model := scalar(m.Model); model != "" {
		d.in.sum.Model = model
	}
	if reason := scalar(m.StopReason); reason != "" {
		d.in.sum.FinishReason = reason
		d.finish = true
	}
	d.in.sum.Usage = overlay(d.in.sum.Usage, m.Usage)
}

// maxUsage bounds what is laid over each other, in bytes: each event's is read anew
// with it.
const maxUsage = 2 << 10

// overlay returns the object under with the fields of over in the place of its
// own: a message's start tells of the tokens that went in, its end of those
// that came out.
func overlay(under, over json.RawMessage) json.RawMessage {
	if blank(over) {
		return under
	}
	var fields map[string]json.RawMessage
	if under == nil || len(under)+len(over) > maxUsage || json.Unmarshal(under, &fields) != nil || json.Unmarshal(over, &fields) != nil {
		return over
	}
	both, err := json.Marshal(fields)
	if err != nil {
		return over
	}
	return both
}
