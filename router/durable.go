package router

import (
	"context"
	"errors"
	"log/slog"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/sse"
	"rillkeep.dev/rillkeep/store"
)

// durableSource follows a stream's durable text: a page at a time until it has
// caught up, then by looking again, when the stream is said to have changed and
// now and then by itself. A look is a query in a goroutine of its own,
// so that a slow store holds up neither pings nor the reader's leaving. The rest
// is for one goroutine.
type durableSource struct {
	router *Router
	id     string
	at     sse.Position // where the reader is
	open   bool         // it needs an open frame

	ctx    context.Context // ends the look in progress
	cancel context.CancelFunc
	watch  *watch          // tells when to look
	look   *look           // in progress; nil if there is none
	rest   <-chan struct{} // closed when it is time for the next look; nil if it is

	begun bool // the first page was taken
	queue []plane.Frame
	told  int64 // newest durable mark that was sent
	done  bool
}

// look is one query.
type look struct {
	done chan struct{} // closed when the rest is set
	page store.Page
	err  error
}

// follow returns a source at the reader's position, limited to the durable text.
// It answers plane.ErrNotFound if there is no such stream.
func (r *Router) follow(id string, at sse.Position) (*durableSource, error) {
	d := r.goOn(id, at)
	d.open = true
	page, err := d.read()
	if err != nil {
		d.Close()
		return nil, err
	}
	d.take(page)
	return d, nil
}

// goOn returns a source for a reader that has an open frame. It gets another, and
// rewinds, only if it has seen what is lost; if it is just ahead of the durable text
// that is waited for.
func (r *Router) goOn(id string, at sse.Position) *durableSource {
	d := &durableSource{router: r, id: id, at: at, watch: r.watches.add(id)}
	d.ctx, d.cancel = context.WithCancel(r.stop)
	return d
}

func (d *durableSource) read() (store.Page, error) {
	d.watch.look()
	return d.router.rows.Text(d.ctx, d.id, d.at.Offset, d.router.limits.PageUnits)
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
		case d.rest != nil && !isClosed(d.rest):
			return plane.Frame{}, false, d.rest
		case d.look == nil:
			d.rest = nil
			d.begin()
		case !isClosed(d.look.done):
			return plane.Frame{}, false, d.look.done
		default:
			d.end()
		}
	}
}

func (d *durableSource) Stream() *plane.Live { return nil }

// begin starts a look.
func (d *durableSource) begin() {
	l := &look{done: make(chan struct{})}
	d.look = l
	go func() { // Close waits for it
		defer close(l.done)
		l.page, l.err = d.read()
	}()
}

// end takes what a look found.
func (d *durableSource) end() {
	page, err := d.look.page, d.look.err
	d.look = nil
	switch {
	case err == nil:
		d.take(page)
	case errors.Is(err, plane.ErrNotFound):
		d.queue = append(d.queue, plane.Frame{Kind: plane.KindAbsent})
		d.done = true
	case isHole(err): // exactness can't be kept (S)
		d.router.log.LogAttrs(d.ctx, slog.LevelError, "text is missing in the store",
			slog.String("streamId", d.id), slog.Any("error", err))
		d.queue = append(d.queue, plane.Frame{Kind: plane.KindAbsent})
		d.done = true
	default: // the store is down: the reader waits for it
		d.pause()
	}
}

// take queues the frames of a page.
func (d *durableSource) take(page store.Page) {
	switch {
	case !d.begun:
		if !d.first(page) {
			return
		}
	case laterEpoch(page.Epoch, d.at.Epoch): // it began at what was durable then, which the reader has at the most
		d.queue = append(d.queue, d.opening(page))
	}
	d.at.Epoch = page.Epoch
	for text := page.Text; text != ""; {
		piece := text[:plane.Cut(text, plane.MaxChunk)]
		f := plane.Frame{Kind: plane.KindChunk, From: d.at.Offset, Text: piece, Epoch: page.Epoch}
		f.Seq = f.From + plane.Units(piece)
		d.queue = append(d.queue, f)
		d.at.Offset, text = f.Seq, text[len(piece):]
	}
	switch pos := d.at.Offset; {
	case pos < page.Seq: // more pages
	case page.Status.Ended():
		d.queue = append(d.queue, plane.Frame{
			Kind: plane.KindEnd, Seq: page.Seq, Status: page.Status,
			Error: page.Error, HasError: page.HasError, Epoch: page.Epoch,
		})
		d.done = true
	default:
		if pos > d.told {
			d.queue = append(d.queue, plane.Frame{Kind: plane.KindDurable, Seq: pos})
			d.told = pos
		}
		d.pause()
	}
}

// first fits the first page to where the reader is, and reports whether it is
// the right one.
func (d *durableSource) first(page store.Page) bool {
	if from := page.Origins().Rewind(d.at.Offset, d.at.Epoch, page.Epoch); from < page.From {
		// What the reader has beyond is an earlier epoch's.
		d.at, d.open = sse.Position{Offset: from, Epoch: page.Epoch}, true
		return false
	}
	if !d.open && page.From < d.at.Offset && page.Epoch == d.at.Epoch && page.Status == plane.StatusStreaming {
		// What the reader has beyond is on its way into the store, or is lost: then an end
		// or a later epoch says so.
		d.pause()
		return false
	}
	if d.open || page.From < d.at.Offset || laterEpoch(page.Epoch, d.at.Epoch) {
		d.queue = append(d.queue, d.opening(page))
	}
	d.begun, d.at.Offset = true, page.From
	return true
}

// laterEpoch reports whether a reader whose text is of one epoch is to be told, by an
// open, that another has begun: 0 is not known, or the one before the first.
func laterEpoch(epoch, than int64) bool { return than != 0 && epoch > than }

// opening is the open of a page, and of its epoch.
func (d *durableSource) opening(page store.Page) plane.Frame {
	return plane.Frame{
		Kind: plane.KindOpen, StreamID: d.id, From: page.From, Seq: page.Seq, DurableSeq: page.Seq,
		Ended: page.Status.Ended(), Epoch: page.Epoch,
	}
}

// pause puts off the next look.
func (d *durableSource) pause() {
	longest := d.router.limits.FeedPoll
	if d.router.deaf.Load() {
		longest = d.router.limits.DurablePoll
	}
	d.rest = d.watch.pause(longest)
}

func (d *durableSource) Close() {
	d.router.watches.remove(d.id, d.watch)
	d.cancel()
	if d.look != nil {
		<-d.look.done
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
