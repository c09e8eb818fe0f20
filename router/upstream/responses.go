package upstream

import (
	"encoding/json"
	"strings"
)

// responses reads OpenAI's responses.
type responses struct {
	in *intake
}

// responseEvent is an event of a streamed response. What the end of one brings is
// the response itself.
type responseEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"`
	Response *response       `json:"response"`
}

// response is a whole one, or what an event says of it so far.
type response struct {
	Object     json.RawMessage `json:"object"`
	Status     json.RawMessage `json:"status"`
	Model      json.RawMessage `json:"model"`
	Output     json.RawMessage `json:"output"`
	Usage      json.RawMessage `json:"usage"`
	Error      json.RawMessage `json:"error"`
	Incomplete struct {
		Reason json.RawMessage `json:"reason"`
	} `json:"incomplete_details"`
}

// done is a [DONE], which this format has no use for: some servers send it all the
// same, after the end.
func (d *responses) done() error { return ErrTruncated }

func (d *responses) event(data []byte) (bool, error) {
	var e responseEvent
	if json.Unmarshal(data, &e) != nil {
		return false, d.in.malformed("is no event of a response")
	}
	if e.Response != nil {
		d.about(*e.Response)
	}
	switch e.Type {
	case "response.output_text.delta":
		text, ok := str(e.Delta)
		if !ok {
			return false, d.in.malformed("has a delta that is no text")
		}
		d.in.emit(text)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, d.end(e, data)
	case "error":
		return true, newError(data)
	case "":
		return false, d.untyped(data)
	default:
		if !isBookkeeping(e.Type) {
			d.in.sum.Skipped++
		}
	}
	return false, nil
}

// end takes the response that a stream ends with. Its text is what the deltas said;
// a server that sent none of these has all of it here.
func (d *responses) end(e responseEvent, data []byte) error {
	if e.Response == nil {
		e.Response = &response{Status: json.RawMessage(`"` + strings.TrimPrefix(e.Type, "response.") + `"`)}
	}
	if !d.in.text {
		d.output(e.Response.Output)
	}
	switch {
	case reported(e.Response.Error):
		return newError(e.Response.Error)
	case e.Type == "response.failed" || e.Type == "response.cancelled":
		err := newError(data)
		err.Type = strings.TrimPrefix(e.Type, "response.")
		return err
	}
	d.finish(*e.Response)
	return nil
}

// untyped takes an event without a type, which only an error may be.
func (d *responses) untyped(data []byte) error {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &e) == nil && reported(e.Error) {
		return newError(data)
	}
	return d.in.malformed("is no event of a response")
}

func (d *responses) whole(body []byte) error {
	var r response
	switch {
	case json.Unmarshal(body, &r) != nil:
		return &DataError{What: "is no response"}
	case reported(r.Error):
		return newError(body)
	case scalar(r.Object) != "response":
		return &DataError{What: "is no response"}
	}
	d.about(r)
	d.output(r.Output)
	switch status := scalar(r.Status); status {
	case "failed", "cancelled":
		return &Error{Type: status, raw: string(body)}
	}
	d.finish(r)
	return nil
}

// about notes what r says of the response, so far.
func (d *responses) about(r response) {
	if model := scalar(r.Model); model != "" {
		d.in.sum.Model = model
	}
	if !blank(r.Usage) {
		d.in.sum.Usage = r.Usage
	}
}

// finish notes how the response ended: its status, or why it is incomplete.
func (d *responses) finish(r response) {
	d.in.sum.FinishReason = scalar(r.Status)
	if reason := scalar(r.Incomplete.Reason); reason != "" {
		d.in.sum.FinishReason = reason
	}
}

// output hands on the text of the messages in a whole response's output. What else
// is there is skipped: reasoning, calls of tools.
func (d *responses) output(raw json.RawMessage) {
	for _, item := range elements(raw) {
		var v struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(item, &v) != nil || v.Type != "message" {
			d.in.sum.Skipped++
			continue
		}
		d.in.content(v.Content)
	}
}

// isBookkeeping reports whether an event says only where a response is: what is in
// it comes in other events.
func isBookkeeping(event string) bool {
	switch event {
	case "response.created", "response.queued", "response.in_progress",
		"response.output_item.added", "response.output_item.done",
		"response.content_part.added", "response.content_part.done",
		"response.output_text.done", "ping", "keepalive":
		return true
	default:
		return false
	}
}
