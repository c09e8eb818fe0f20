package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
)

// maxFrame is the largest text of one frame, in bytes.
const maxFrame = 64 << 10

// transcript is what one connection of a reader was given. It is checked event
// by event against what a reader may rely on.
type transcript struct {
	into io.Writer // gets the text; nil discards

	frames  int
	from    int64 // where the text begins
	pos     int64 // where it ends
	durable int64
	open    *plane.Frame // the newest
	end     *plane.Frame // the terminal frame
	ids     []string     // of the chunks
}

// take adds an event's frame, or says which rule it breaks.
func (t *transcript) take(event sse.Event) (plane.Frame, error) {
	f, err := plane.ParseFrame(event.Data)
	if err != nil {
		return f, fmt.Errorf("frame %d: %w", t.frames, err)
	}
	t.frames++
	if t.end != nil {
		return f, fmt.Errorf("%s after the terminal %s", f.Kind, t.end.Kind)
	}
	id, epoch, _ := plane.ParseResume(event.ID)
	f.Epoch = epoch
	switch f.Kind {
	case plane.KindOpen:
		err = t.opens(f, id)
	case plane.KindChunk:
		t.ids = append(t.ids, event.ID)
		err = t.extends(f, id)
	case plane.KindDurable:
		if f.Seq <= t.durable {
			err = fmt.Errorf("durable %d after %d", f.Seq, t.durable)
		}
		t.durable = f.Seq
	case plane.KindEnd:
		if f.Seq != id {
			err = fmt.Errorf("end at %d with id %s", f.Seq, event.ID)
		}
		t.end = &f
	default:
		t.end = &f
	}
	return f, err
}

func (t *transcript) opens(f plane.Frame, id int64) error {
	if t.open != nil {
		return fmt.Errorf("a second open, at %d", f.From)
	}
	if f.From != id || f.From > f.Seq || f.DurableSeq > f.Seq {
		return fmt.Errorf("open from %d, id %d, seq %d, durable %d", f.From, id, f.Seq, f.DurableSeq)
	}
	t.open, t.from, t.pos = &f, f.From, f.From
	return nil
}

func (t *transcript) extends(f plane.Frame, id int64) error {
	switch {
	case t.open == nil:
		return errors.New("chunk before open")
	case f.From != t.pos:
		return fmt.Errorf("chunk from %d, the text ends at %d", f.From, t.pos)
	case f.Seq-f.From != plane.Units(f.Text) || f.Text == "":
		return fmt.Errorf("chunk %d to %d holds %d units", f.From, f.Seq, plane.Units(f.Text))
	case f.Seq != id:
		return fmt.Errorf("chunk to %d has id %d", f.Seq, id)
	case len(f.Text) > maxFrame:
		return fmt.Errorf("chunk of %d bytes", len(f.Text))
	case strings.ToValidUTF8(f.Text, "") != f.Text:
		return fmt.Errorf("chunk %d to %d is not valid UTF-8", f.From, f.Seq)
	}
	t.pos = f.Seq
	if t.into != nil {
		_, err := io.WriteString(t.into, f.Text)
		return err
	}
	return nil
}

// reader is one connection of a reader.
type reader struct {
	transcript
	events *sse.Reader
	stream io.Reader // what events reads
	body   io.Closer
	header http.Header
}

// join makes a read request that must be accepted; query is the raw query,
// header names and values in turn. The reader leaves when ctx ends.
func (r *running) join(ctx context.Context, id, query string, header ...string) (*reader, error) {
	return joinAs(ctx, r.http, r.URL()+path(id)+"?"+query, header...)
}

func joinAs(ctx context.Context, as *http.Client, url string, header ...string) (*reader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := as.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("read: %d %s", resp.StatusCode, body)
	}
	return &reader{events: sse.NewReader(resp.Body, sse.Options{}), stream: resp.Body, body: resp.Body, header: resp.Header}, nil
}

// reads is join for the test's own goroutine.
func (r *running) reads(id, query string, header ...string) *reader {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), patience)
	r.tb.Cleanup(cancel)
	rd, err := r.join(ctx, id, query, header...)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = rd.body.Close() })
	return rd
}

// next returns the next frame. The error is io.EOF where the connection ended.
func (r *reader) next() (plane.Frame, error) {
	event, err := r.events.Next()
	if err != nil {
		return plane.Frame{}, err
	}
	return r.take(event)
}

// rest reads until the terminal frame and the end of the connection.
func (r *reader) rest() error {
	defer r.body.Close()
	for {
		_, err := r.next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && r.end == nil:
			return fmt.Errorf("connection ended at %d without a terminal frame", r.pos)
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("at %d: %w", r.pos, err)
		}
	}
}

// until reads to the offset.
func (r *reader) until(pos int64) error {
	for r.pos < pos {
		if _, err := r.next(); err != nil {
			return fmt.Errorf("at %d, before %d: %w", r.pos, pos, err)
		}
	}
	return nil
}

// text reads a whole stream from the test's own goroutine: the text that was
// delivered, and the transcript.
func (r *running) text(id, query string, header ...string) (string, *reader) {
	r.tb.Helper()
	rd := r.reads(id, query, header...)
	var text strings.Builder
	rd.into = &text
	if err := rd.rest(); err != nil {
		r.tb.Fatalf("read %q with %q: %v", id, query, err)
	}
	return text.String(), rd
}
