// Package sse is the event-stream codec: [Append] writes a subscription's frames
// as events, [Reader] reads events by the grammar of the HTML standard,
// [ParseRequest] reads where a reader asks to start.
//
// An event of ours is an id line, if the frame has a resume point, and one data
// line of JSON. There is no event line, so that a browser's onmessage gets every
// frame. JSON has no line ends of its own in it: no text, id or error message
// can end the line and make up another event.
package sse

import (
	"net/http"
	"strconv"

	"rillkeep.dev/rillkeep/plane"
)

// ContentType is the media type of an event stream, without parameters.
const ContentType = "text/event-stream"

// Ping is a comment line that keeps a connection alive. There is no blank line
// after it, at which some parsers would give out an event. It is written between
// events. Nobody may change it.
var Ping = []byte(": ping\n")

// SetHeaders sets the headers of an answer that is an event stream: neither a
// cache nor a proxy may keep it, change it or hold it back.
func SetHeaders(h http.Header) {
	h.Set("Content-Type", ContentType+"; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Append appends f as one event.
func Append(dst []byte, f plane.Frame) []byte {
	const name = "id: "
	start := len(dst)
	dst = plane.AppendResume(append(dst, name...), f)
	if len(dst) == start+len(name) {
		dst = dst[:start]
	} else {
		dst = append(dst, '\n')
	}
	dst = plane.AppendJSON(append(dst, "data: "...), f)
	return append(dst, "\n\n"...)
}

// Retry returns the line that asks a reader to wait ms milliseconds before it
// connects again. It is written once, before the first event. Readers that were
// told different times do not all come back at once.
func Retry(ms int) []byte {
	return append(strconv.AppendInt([]byte("retry: "), int64(max(ms, 0)), 10), '\n')
}
