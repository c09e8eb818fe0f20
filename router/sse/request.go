package sse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"rillkeep.dev/rillkeep/plane"
)

// ErrBadQuery says that a request's query is not well formed: a broken percent
// escape, or a semicolon between parameters.
var ErrBadQuery = errors.New("query of the request is not well formed")

// Position is where a request asks to read from.
type Position struct {
	Offset  int64 // UTF-16 code units, from 0 to plane.MaxOffset
	Epoch   int64 // the one in which Offset was given out, 1 if none is named; 0 if Offset was not asked for
	Resumed bool  // it is from a Last-Event-ID: the reader was here before
}

// ParseRequest returns the position that a request asks for: that of its
// Last-Event-ID, else of its first from parameter, else the beginning. Both are
// read by [plane.ParseResume]. What holds no offset is as not there, so that an
// empty id, "-7" or "abc" sends no reader back to the beginning. The error is an
// ErrBadQuery, whose message holds nothing of the query.
func ParseRequest(r *http.Request) (Position, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Position{}, fmt.Errorf("parse request: %w", ErrBadQuery)
	}
	if offset, epoch, ok := plane.ParseResume(r.Header.Get("Last-Event-ID")); ok {
		return Position{Offset: offset, Epoch: epoch, Resumed: true}, nil
	}
	offset, epoch, _ := plane.ParseResume(query.Get("from"))
	return Position{Offset: offset, Epoch: epoch}, nil
}
