// Package upstream reads the streams of language-model providers and gives out
// the response text in them.
//
// The response is the text content of choice 0 (of a response, its messages') and nothing else. Reasoning,
// tool calls, refusals, other choices and event types it does not know are
// skipped and counted; of a content list the text parts are taken. Text is
// handed on as it was written: half of a surrogate pair stays half (in WTF-8),
// because its mate may be in the next delta; package plane joins them.
//
// A response is complete when its own protocol says so: [DONE], message_stop,
// response.completed or response.incomplete, whatever reason to finish came before; a whole JSON body; for NDJSON and plain
// text, the end of the body. What follows such an end is not waited for and not
// read.
// Anything else is an error, and the text before it stays good:
//
//   - *[Error]: the provider reported a failure, at whatever place and in
//     whatever shape. [DONE] after it does not make it a success.
//   - [ErrTruncated]: the stream ended before the response did.
//   - [ErrEmpty]: there was no response at all. A complete one may hold no text,
//     if it was a tool call, but a body that is not a stream must hold some.
//   - *[DataError], an [ErrMalformed]: what came is no such stream: an HTML page,
//     an event that is not JSON. The exception is an event whose data begins with a colon, a
//     comment that a proxy wrapped: it is skipped and counted.
//   - [ErrTooLong]: a line over the limit.
//
// The message of every one of them is fit for readers: it holds no response
// text, no address and no key. What is left out is kept for the producer's own
// log, in [Error.Raw] and behind errors.Unwrap.
package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Format names how a provider writes its stream.
type Format string

// The formats. The first three also take a whole response in one JSON body, which
// is what some providers answer to a request for a stream.
const (
	OpenAI    Format = "openai"           // chat completions, server-sent events
	Responses Format = "openai-responses" // responses, server-sent events
	Anthropic Format = "anthropic"        // messages, server-sent events
	NDJSON    Format = "ndjson"           // lines {"text":"…"} or "…"
	Text      Format = "text"             // the body is the text
)

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case OpenAI, Responses, Anthropic, NDJSON, Text:
		return f, nil
	default:
		return "", fmt.Errorf("unknown upstream format %q", name)
	}
}

// defaultMaxLine bounds a line unless Options say otherwise.
const defaultMaxLine = 16 << 20

// Options of Deltas. The zero value is good.
type Options struct {
	// ContentType is the one of the response; "" means unknown. It is used to
	// refuse what can't be a response; the formats themselves look at the bytes.
	ContentType string

	// MaxLine is the longest line, the most data in one event and the largest
	// whole JSON body, in bytes; 0 means 16 MiB. Memory in use is a small multiple
	// of the longest that was met.
	MaxLine int

	// Summary, if set, is filled in while the deltas are taken.
	Summary *Summary
}

// Summary is what a stream said apart from its text.
type Summary struct {
	FinishReason string          // as the provider calls it; "" if it gave none
	Model        string          // the model that answered
	Usage        json.RawMessage // as sent; Anthropic's two parts laid over each other; nil if none
	Events       int             // events or lines with data
	Skipped      int             // parts that are no response text
	Junk         int             // events that are no JSON and were passed over
}

// Deltas reads a response body and yields its text, piece by piece and never
// an empty one. If the response fails, the last pair is "" and the error. The
// sequence can be ranged over once.
//
// It returns without waiting for the end of r once the response is complete.
// It does not close r: the caller does, when the loop is left and when ctx is
// done, which ends a read that is in progress (the body of an HTTP request made
// with ctx does so by itself). The error is then the context's cause.
func Deltas(ctx context.Context, r io.Reader, format Format, opts Options) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := newIntake(ctx, opts, yield)
		err := in.read(r, format)
		if err == nil || in.stopped {
			return
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield("", err)
	}
}

// intake is one pass over a response body.
type intake struct {
	ctx     context.Context
	maxLine int
	ctype   string
	sum     *Summary
	yield   func(string, error) bool
	stopped bool // the consumer wants no more
	text    bool // some text was handed on
}

func newIntake(ctx context.Context, opts Options, yield func(string, error) bool) *intake {
	in := &intake{ctx: ctx, maxLine: opts.MaxLine, ctype: mediaType(opts.ContentType), sum: opts.Summary, yield: yield}
	if in.maxLine <= 0 {
		in.maxLine = defaultMaxLine
	}
	if in.sum == nil {
		in.sum = new(Summary)
	}
	*in.sum = Summary{}
	return in
}

func (in *intake) read(r io.Reader, format Format) error {
	if err := in.acceptable(format); err != nil {
		return err
	}
	switch format {
	case OpenAI:
		return in.readEvents(r, &openAI{in: in})
	case Responses:
		return in.readEvents(r, &responses{in: in})
	case Anthropic:
		return in.readEvents(r, &anthropic{in: in})
	case NDJSON:
		return in.readLines(r)
	case Text:
		return in.readText(r)
	default:
		return fmt.Errorf("unknown upstream format %q", format)
	}
}

// emit hands text on.
func (in *intake) emit(text string) {
	if text == "" || in.stopped {
		return
	}
	in.text = true
	in.stopped = !in.yield(text, nil)
}

// over reports whether to stop reading, by the consumer's wish or the context's.
func (in *intake) over() bool { return in.stopped || in.ctx.Err() != nil }

// stop is the error to leave with when over says so.
func (in *intake) stop() error { return context.Cause(in.ctx) }
