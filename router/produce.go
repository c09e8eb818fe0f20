package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// Content types of what a producer sends.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeText   = "text/plain"
)

// append takes one delta. With from it may be repeated: what is there already
// is absorbed.
func (r *Router) append(c echo.Context) error {
	to, err := producing(c)
	if err != nil {
		return err
	}
	delta, err := r.delta(c)
	if err != nil {
		return err
	}
	s, err := r.live(c)
	if err != nil {
		return err
	}
	if to.as != (plane.ProducerEpoch{}) && r.waits() {
		return errWaits
	}
	if err := r.push(c.Request().Context(), s, to, delta); err != nil {
		return err
	}
	return acknowledged(c, s.State())
}

// acknowledged answers with a wire.Ack, at less cost than c.JSON.
func acknowledged(c echo.Context, st plane.State) error {
	body := make([]byte, 0, 64)
	body = strconv.AppendInt(append(body, `{"seq":`...), st.Received, 10)
	body = strconv.AppendInt(append(body, `,"durableSeq":`...), st.Durable, 10)
	return c.JSONBlob(http.StatusOK, append(body, "}\n"...))
}

// push gives a stream its next delta. A stream whose store is far behind takes
// it later, or not in time.
func (r *Router) push(ctx context.Context, s *plane.Stream, to production, delta string) error {
	if s.IsCancelled() {
		return plane.ErrCancelled
	}
	ctx, cancel := context.WithTimeout(ctx, r.limits.BodyTime)
	defer cancel()
	err := s.PushAs(ctx, to.as, to.from, delta)
	if errors.Is(err, context.DeadlineExceeded) {
		return wire.Detail(wire.ErrUnavailable, "the store is too far behind to take more; nothing was added")
	}
	return err
}

// production is what the query of a producer's request says.
type production struct {
	from int64               // offset of the delta; below 0 it is wherever the text ends
	as   plane.ProducerEpoch // who the producer is; the zero value is nobody in particular
}

// producing reads it. A query that can't be read is refused: without its offset, a
// delta that is repeated would be there twice, and without its epoch, a producer
// that was fenced would not be.
func producing(c echo.Context) (p production, err error) {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return p, wire.Detail(wire.ErrBadRequest, "the query is not well formed")
	}
	p.from = -1
	if query.Has("from") {
		p.from, err = strconv.ParseInt(query.Get("from"), 10, 64)
		if err != nil || p.from < 0 {
			return p, wire.Detail(wire.ErrBadRequest, "from is the offset of the delta, a whole number of UTF-16 code units")
		}
	}
	if query.Has("epoch") {
		if p.as, err = plane.ParseProducerEpoch(query.Get("epoch")); err != nil {
			return p, wire.Detail(wire.ErrBadRequest, "epoch is the producerEpoch that the open answered, such as 1.1")
		}
	}
	return p, nil
}

// delta returns the text of an append, whole or not at all.
func (r *Router) delta(c echo.Context) (string, error) {
	kind, err := contentType(c, typeJSON, typeText)
	if err != nil {
		return "", err
	}
	body, err := r.body(c, r.limits.AppendBytes)
	if err != nil {
		return "", err
	}
	if kind == typeText {
		return string(body), nil
	}
	return parseDelta(body)
}

// parseDelta returns the text of {"text":"…"}, halves of surrogate pairs kept:
// encoding/json would make U+FFFD of them.
func parseDelta(body []byte) (string, error) {
	var envelope struct {
		Text json.RawMessage `json:"text"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || !utf8.Valid(body) || len(envelope.Text) == 0 || envelope.Text[0] != '"' {
		return "", wire.Detail(wire.ErrBadRequest, `a delta is JSON, in UTF-8, of the form {"text":"…"}`)
	}
	text, err := plane.UnescapeJSON(nil, envelope.Text)
	if err != nil {
		return "", wire.Detail(wire.ErrBadRequest, "the text is no JSON string: %v", err)
	}
	return string(text), nil
}

// contentType returns which of the supported types the body has; without a
// header it is the first.
func contentType(c echo.Context, supported ...string) (string, error) {
	header := c.Request().Header.Get(echo.HeaderContentType)
	if header == "" {
		return supported[0], nil
	}
	if slices.Contains(supported, header) {
		return header, nil
	}
	kind, params, err := mime.ParseMediaType(header)
	if err == nil {
		for _, s := range supported {
			charset := params["charset"]
			if kind == s && (charset == "" || bytes.EqualFold([]byte(charset), []byte("utf-8"))) {
				return s, nil
			}
		}
	}
	return "", wire.Detail(wire.ErrMediaType, "send one of %v, in UTF-8", supported)
}

// body reads a whole request body, bounded in bytes and time.
func (r *Router) body(c echo.Context, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, wire.Detail(wire.ErrTooLarge, "the body may have %d bytes; send more deltas, or pump", limit)
	case err != nil:
		return nil, wire.Detail(wire.ErrBadRequest, "the body did not arrive whole")
	}
	if c.Request().ProtoMajor == 1 { // of HTTP/2 it was the body's alone
		readUntil(c, time.Time{}) // what is done with the body may take longer
	}
	return body, nil
}
