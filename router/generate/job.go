package generate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/router/upstream"
)

// Job is one call of a model.
type Job struct {
	to    Upstream
	body  []byte
	whole bool // the response comes in one piece

	// Copy, if set, is given the response as the provider sends it.
	Copy Copy
}

// Copy takes what a provider sends, as it comes.
type Copy interface {
	// Head comes once, before the first byte: from then on nothing is tried again.
	Head(header http.Header)

	// Add takes bytes, which it must not keep, and waits for nothing.
	Add(p []byte)
}

// Upstream is the name of where the job goes.
func (j Job) Upstream() string { return j.to.Name }

// Fingerprint tells jobs apart: equal ones have the same.
func (j Job) Fingerprint() string {
	h := sha256.New()
	_, _ = h.Write([]byte(j.to.Name + "\n"))
	_, _ = h.Write(j.body)
	return hex.EncodeToString(h.Sum(nil))
}

// What is wrong with a request.
var (
	ErrUnnamed = errors.New("no upstream is named")
	ErrUnknown = errors.New("no such upstream")
	ErrRequest = errors.New("request is no JSON object")
)

// Job returns the call of an upstream with a request of its format. The response is
// asked for as a stream, with its usage, whatever the request says of that.
func (c *Client) Job(name string, request []byte) (Job, error) {
	u, ok := c.upstreams[name]
	switch {
	case name == "":
		return Job{}, ErrUnnamed
	case !ok:
		return Job{}, fmt.Errorf("%w as %.70q", ErrUnknown, name)
	}
	fields, err := object(request)
	if err != nil {
		return Job{}, err
	}
	fields["stream"] = json.RawMessage("true")
	if u.Format == upstream.OpenAI {
		options, err := object(fields["stream_options"])
		if err != nil {
			options = map[string]json.RawMessage{}
		}
		options["include_usage"] = json.RawMessage("true")
		if fields["stream_options"], err = encode(options); err != nil {
			return Job{}, err
		}
	}
	body, err := encode(fields)
	return Job{to: u, body: body}, err
}

// Completion returns the call that a request for a chat completion is, which goes as
// it is: to the upstream of format openai that its model names before a slash, without
// that, else to the first one.
func (c *Client) Completion(request []byte) (Job, error) {
	fields, err := object(request)
	if err != nil {
		return Job{}, err
	}
	job := Job{to: c.first, body: request, whole: string(fields["stream"]) != "true"}
	var model string
	_ = json.Unmarshal(fields["model"], &model) // one that is no string names nothing
	if name, rest, _ := strings.Cut(model, "/"); rest != "" && c.upstreams[name].Format == upstream.OpenAI {
		job.to = c.upstreams[name]
		if fields["model"], err = encode(rest); err != nil {
			return Job{}, err
		}
		if job.body, err = encode(fields); err != nil {
			return Job{}, err
		}
	}
	if job.to.Name == "" {
		return Job{}, fmt.Errorf("%w of format openai", ErrUnknown)
	}
	return job, nil
}

// object reads a JSON object whose values stay as they are.
func object(data []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil || !utf8.Valid(data) {
		return nil, ErrRequest
	}
	return fields, nil
}

// encode is v as JSON, in which text stays as it is written.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
