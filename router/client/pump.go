package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/wire"
)

// deltaLine returns {"text":"…"} and a newline. Halves of surrogate pairs (in
// WTF-8) stay halves.
func deltaLine(delta string) []byte {
	line := append([]byte(`{"text":`), plane.AppendString(nil, delta)...)
	return append(line, "}\n"...)
}

// SourceError is an error of a pump's own source. What came before it was
// pumped, and is acknowledged.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Pump sends the deltas of source, the first one at offset from, in one long
// request, and returns the last acknowledgement. It leaves the stream open. The
// context that the source is given ends when the server takes no more: when the
// stream was asked to stop, which is an Ack that says Cancelled and no error,
// or failed. progress, if not nil, is called with each acknowledgement.
func (c *Client) Pump(
	ctx context.Context, id string, from int64,
	source func(context.Context) iter.Seq2[string, error], progress func(wire.Ack),
) (wire.Ack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, sender := io.Pipe()
	u := c.stream(id, "pump")
	u.RawQuery = url.Values{"from": {strconv.FormatInt(from, 10)}}.Encode()
	req, err := c.request(ctx, http.MethodPost, u, body)
	if err != nil {
		return wire.Ack{}, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")

	var sending sync.WaitGroup
	var failed error // of the source
	sending.Go(func() { failed = send(ctx, sender, source) })
	ack, err := c.acks(req, progress)
	cancel() // the source's too
	_ = body.Close()
	sending.Wait()
	if err == nil && !ack.Cancelled && failed != nil {
		err = &SourceError{failed}
	}
	return ack, err
}

// send writes the source's deltas into the request, and returns the source's
// error. The request ends well in any case: what was sent counts.
func send(ctx context.Context, to *io.PipeWriter, source func(context.Context) iter.Seq2[string, error]) error {
	defer to.Close()
	for delta, err := range source(ctx) {
		if err != nil {
			return err
		}
		if delta == "" {
			continue
		}
		if _, err := to.Write(deltaLine(delta)); err != nil {
			return nil // the server takes no more, and says why
		}
	}
	return nil
}

// acks makes the request and reads its answer to the last line.
func (c *Client) acks(req *http.Request, progress func(wire.Ack)) (last wire.Ack, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return last, noSecrets(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return last, wire.Decode(resp.StatusCode, answer)
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line wire.PumpLine
		if err := lines.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return last, fmt.Errorf("read acknowledgements: %w", noSecrets(err))
		}
		last = line.Ack
		switch {
		case line.Error != nil:
			return last, wire.Restore(line.Error)
		case line.Done:
			return last, nil
		case progress != nil:
			progress(line.Ack)
		}
	}
}
