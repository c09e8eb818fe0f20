package router

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store"
)

// durableSource follows a stream's durable text: a page at a time until it has
// caught up, then by looking again. It is for one goroutine; a look is a query
// with a deadline, and costs only its own reader.
type durableSource struct {
	store store.Store
	ctx   context.Context // of all readers of the node
	id    string
	pos   int64
	page  int64         // units read at once
	every time.Duration // between looks
	limit time.Duration // of one look

	queue  []plane.Frame
	told   int64 // newest durable mark that was sent
	done   bool
	timer  *time.Timer
	waited chan struct{} // closed when it is time to look again
}

// follow returns a source at the reader's position, limited to the durable text. It
// answers plane.ErrNotFound if there is no such stream. A reader that has an
// open frame gets another only if it is ahead of the durable text: it rewinds.
func (r *Router) follow(id string, at sse.Position, open bool) (source, error) {
	d := &durableSource{
		store: r.cfg.Store, ctx: r.readers.stop, id: id, pos: at.Offset,
		page: r.limits.PageUnits, every: r.limits.DurablePoll, limit: r.limits.Stall,
	}
	page, err := d.read()
	if err != nil {
		return nil, err
	}
	if at.Epoch != 0 && at.Epoch < page.Epoch && page.From > 0 {
		// What the reader has is another epoch's; this one began with nothing.
		d.pos = 0
		if page, err = d.read(); err != nil {
			return nil, err
		}
	}
	d.pos = page.From
	if open || page.From < at.Offset {
		d.queue = append(d.queue, plane.Frame{
			Kind: plane.KindOpen, StreamID: id, From: page.From, Seq: page.Seq, DurableSeq: page.Seq,
			Ended: page.Status.Ended(), Epoch: page.Epoch,
		})
	}
	d.take(page)
	return d, nil
}

func (d *durableSource) read() (store.Page, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.limit)
	defer cancel()
	return d.store.Text(ctx, d.id, d.pos, d.page)
}

// take queues the frames of a page.
func (d *durableSource) take(page store.Page) {
	if page.Text != "" {
		d.pos = page.From
	}
	for text := page.Text; text != ""; {
		piece := text[:cut(text)]
		f := plane.Frame{Kind: plane.KindChunk, From: d.pos, Seq: d.pos + plane.Units(piece), Text: piece, Epoch: page.Epoch}
		d.queue = append(d.queue, f)
		d.pos, text = f.Seq, text[len(piece):]
	}
	if d.pos < page.Seq {
		return // more pages
	}
	if page.Status.Ended() {
		d.queue = append(d.queue, plane.Frame{
			Kind: plane.KindEnd, Seq: page.Seq, Status: page.Status,
			Error: page.Error, HasError: page.HasError, Epoch: page.Epoch,
		})
		d.done = true
		return
	}
	if d.pos > d.told {
		d.queue = append(d.queue, plane.Frame{Kind: plane.KindDurable, Seq: d.pos})
		d.told = d.pos
	}
	d.rest()
}

// maxChunk bounds the text of one chunk frame in bytes, as on the live plane.
const maxChunk = 64 << 10

// cut returns how many bytes of text go into one frame: whole characters.
func cut(text string) int {
	if len(text) <= maxChunk {
		return len(text)
	}
	n := maxChunk
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// rest puts off the next look.
func (d *durableSource) rest() {
	waited := make(chan struct{})
	d.waited = waited
	d.timer = time.AfterFunc(d.every, func() { close(waited) })
}

func (d *durableSource) Poll() (plane.Frame, bool, <-chan struct{}) {
	for {
		switch {
		case len(d.queue) > 0:
			f := d.queue[0]
			d.queue = d.queue[1:]
			return f, true, nil
		case d.done:
			return plane.Frame{}, false, nil
		case d.waited != nil && !isClosed(d.waited):
			return plane.Frame{}, false, d.waited
		}
		d.waited = nil
		switch page, err := d.read(); {
		case err == nil:
			d.take(page)
		case errors.Is(err, plane.ErrNotFound):
			d.queue = append(d.queue, plane.Frame{Kind: plane.KindAbsent})
			d.done = true
		default: // the store is down: the reader waits for it
			d.rest()
		}
	}
}

func (d *durableSource) Close() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
