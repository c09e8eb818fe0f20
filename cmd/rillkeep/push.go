package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
	"rillkeep.dev/rillkeep/router/upstream"
	"rillkeep.dev/rillkeep/router/wire"
)

type pushCmd struct {
	remote
	ID       string `arg:"" help:"The stream's id."`
	Format   string `help:"What the input is: openai, anthropic, ndjson or text." enum:"openai,anthropic,ndjson,text" default:"text"`
	Producer string `help:"Who produces, kept with the stream." placeholder:"NAME"`
	Meta     string `help:"JSON to keep with the stream." placeholder:"JSON"`
}

// Help is printed below the flags.
func (pushCmd) Help() string {
	return `The stream is sealed complete when the input is, error if it reports one, and
interrupted if it breaks off. Formats:
  openai      chat completions with "stream": true
  anthropic   messages with "stream": true
  ndjson      lines {"text":"…"} or "…"
  text        any UTF-8

Examples:
  curl -N https://…/v1/chat/completions -d '{"stream":true,…}' | rillkeep push --format openai m1
  printf 'Hello' | rillkeep push m2`
}

// sealTimeout bounds what is left to do when the input is over.
const sealTimeout = time.Minute

// Run opens the stream, pumps the input into it and seals it.
func (p pushCmd) Run(ctx context.Context, io *console) error {
	format, err := upstream.ParseFormat(p.Format)
	if err != nil {
		return err
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	if p.Meta != "" && !json.Valid([]byte(p.Meta)) {
		return errors.New("--meta is not JSON")
	}
	opened, err := c.Open(ctx, p.ID, wire.Open{Producer: p.Producer, Meta: json.RawMessage(p.Meta)})
	if err != nil {
		return err
	}
	input := detach(io.in)
	_, err = c.Pump(ctx, p.ID, opened.Seq, func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			defer context.AfterFunc(ctx, func() { _ = input.Close() })()
			upstream.Deltas(ctx, input, format, upstream.Options{})(yield)
		}
	}, nil)
	// The seal is owed to the readers also when the command was stopped.
	sealing, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealTimeout)
	defer cancel()
	sealed, err := p.seal(sealing, c, err, io)
	if err != nil {
		return err
	}
	if p.JSON {
		_ = json.NewEncoder(io.out).Encode(sealed)
	}
	return statusCode(sealed.Status)
}

// seal ends the stream as the input ended.
func (p pushCmd) seal(ctx context.Context, c *client.Client, pumped error, io *console) (wire.Sealed, error) {
	var source *client.SourceError
	switch {
	case pumped == nil, errors.Is(pumped, plane.ErrCancelled):
		return c.Close(ctx, p.ID, wire.Close{})
	case !errors.As(pumped, &source):
		if sealed, err := c.Close(ctx, p.ID, wire.Close{Status: plane.StatusInterrupted}); err == nil && errors.Is(pumped, plane.ErrClosed) {
			return sealed, nil // it ended under our hands, and this is how
		}
		return wire.Sealed{}, pumped
	}
	fmt.Fprintln(io.err, "rillkeep: input:", source)
	if errors.Is(source, upstream.ErrTruncated) || errors.Is(source, context.Canceled) {
		return c.Close(ctx, p.ID, wire.Close{Status: plane.StatusInterrupted})
	}
	return c.Fail(ctx, p.ID, source.Error())
}

// detach returns in as something whose Close ends a read in progress. A read of
// a terminal or a pipe can't be ended by other means: the goroutine that copies
// may outlive the command by the time that the process takes to exit.
func detach(in io.Reader) io.ReadCloser {
	from, to := io.Pipe()
	go func() {
		_, err := io.Copy(to, in)
		_ = to.CloseWithError(err)
	}()
	return from
}
