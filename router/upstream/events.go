package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"strings"

	"rillkeep.dev/rillkeep/router/sse"
)

// dialect is what one provider puts into events. Its methods hand the text in
// the data on before they say anything else of it.
type dialect interface {
	// event takes the data of one event, which is JSON, and reports whether it
	// was the last.
	event(data []byte) (done bool, err error)

	// whole takes a response that came in one piece, which is JSON.
	whole(body []byte) error

	// done is what a [DONE] means at this place.
	done() error
}

// mediaType returns a Content-Type without its parameters.
func mediaType(header string) string {
	if kind, _, err := mime.ParseMediaType(header); err == nil {
		return kind
	}
	return header
}

// acceptable refuses a body that its content type says is no response.
func (in *intake) acceptable(format Format) error {
	switch {
	case in.ctype == "text/html" || in.ctype == "application/xhtml+xml":
		return &DataError{What: "is an HTML page"}
	case format != Text || in.ctype == "" || in.ctype == "application/octet-stream":
		return nil
	case !strings.HasPrefix(in.ctype, "text/") || in.ctype == "text/event-stream":
		return &DataError{What: "is not plain text"}
	default:
		return nil
	}
}

// readEvents reads a stream of events, or what came in its place.
func (in *intake) readEvents(r io.Reader, d dialect) error {
	br := bufio.NewReader(r)
	switch first(br) {
	case '{', '[':
		return in.readWhole(br, d)
	case '<':
		return &DataError{What: "is a page of markup"}
	}
	events := sse.NewReader(br, sse.Options{Limit: in.maxLine, Final: true})
	for !in.over() {
		ev, err := events.Next()
		if err != nil {
			return in.ended(err)
		}
		done, err := in.event(ev, d)
		if done || err != nil {
			return err
		}
	}
	return in.stop()
}

// event takes one event and reports whether the response ends with it.
func (in *intake) event(ev sse.Event, d dialect) (done bool, err error) {
	data := bytes.TrimSpace(ev.Data)
	isError := ev.Type == "error" && !ev.Cut
	if len(data) == 0 && !isError {
		return false, nil
	}
	in.sum.Events++
	switch {
	case isError:
		return true, newError(data)
	case data[0] == ':':
		in.sum.Junk++
		return false, nil
	case string(data) == "[DONE]":
		return true, d.done()
	case !json.Valid(data):
		if ev.Cut { // the end of the input, which comes next, is the reason
			return false, nil
		}
		return true, in.malformed("is not JSON")
	}
	return d.event(data)
}

// ended says what it means that a stream of events ended with err, and not by its
// own mark: the end of a pipe can't be told from a cut.
func (in *intake) ended(err error) error {
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return tooLong(in.maxLine)
	case in.sum.Events == 0 && err == io.EOF:
		return ErrEmpty
	default:
		return truncated(err)
	}
}

// malformed is the DataError of the event or line that is being read.
func (in *intake) malformed(what string) error {
	return &DataError{At: in.sum.Events, What: what}
}

// readWhole takes a response in one JSON body. It does not wait for what may
// follow.
func (in *intake) readWhole(r *bufio.Reader, d dialect) error {
	if mark, _ := r.Peek(len(bom)); string(mark) == bom {
		_, _ = r.Discard(len(bom))
	}
	limited := &io.LimitedReader{R: r, N: int64(in.maxLine) + 1}
	var body json.RawMessage
	if err := json.NewDecoder(limited).Decode(&body); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return &DataError{What: "is not JSON"}
		case limited.N <= 0:
			return tooLong(in.maxLine)
		default:
			return truncated(err)
		}
	}
	in.sum.Events++
	if list := elements(body); len(list) > 0 { // some wrap an error in a list
		body = list[0]
	}
	if err := d.whole(body); err != nil {
		return err
	}
	if !in.text {
		return ErrEmpty
	}
	return nil
}

const bom = "\uFEFF"

// first returns the first byte of r that is no blank and not part of a byte
// order mark, without taking anything; 0 if there is none soon.
func first(r *bufio.Reader) byte {
	for n := 1; n <= 512; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return 0
		}
		if c := b[n-1]; strings.IndexByte(" \t\r\n"+bom, c) < 0 {
			return c
		}
	}
	return 0
}
