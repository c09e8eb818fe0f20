package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/client"
)

type tailCmd struct {
	remote
	ID    string `arg:"" help:"The stream's id."`
	From  int64  `help:"Offset to start at, in UTF-16 code units." default:"0" placeholder:"N"`
	Plane string `help:"auto, live or durable." enum:"auto,live,durable" default:"auto"`
}

// Help is printed below the flags.
func (tailCmd) Help() string {
	return `Prints the text as it comes and exits with 0 when the stream is complete, 3 if it
was cancelled, 4 if it ended with an error, 5 if it was interrupted. A stream that has
a row and no producer yet is waited for, as is one whose node is away, and that is said.
With --json each frame is a line.

Examples:
  rillkeep tail m1
  rillkeep tail --from 512 --json m1`
}

// Validate is called before Run.
func (t tailCmd) Validate() error {
	if t.From < 0 {
		return errors.New("--from is an offset, 0 or more")
	}
	return nil
}

// Run prints the stream. A server that was never reached is an error, one that
// was lost is not.
func (t tailCmd) Run(ctx context.Context, con *console) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	asker, err := t.client(nil)
	if err != nil {
		return err
	}
	watch := &lookout{con: con, look: lookAt(asker, t.ID)}
	out := &printer{con: con, json: t.JSON, w: bufio.NewWriter(con.out), pos: t.From}
	c, err := t.client(func(_ string, why error) {
		if !out.begun {
			giveUp(why)
			return
		}
		watch.lost(why)
	})
	if err != nil {
		return err
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	defer giveUp(nil)
	asking.Go(func() { watch.run(ctx) })
	asked := false
	for f, err := range c.Follow(ctx, t.ID, t.From, t.Plane) {
		if err == nil {
			watch.hear(f)
			err = out.frame(f)
		}
		if f.Kind == plane.KindOpen && f.Seq == 0 && !f.Ended && !asked {
			asked = true
			asking.Go(func() { t.explain(ctx, con, c) })
		}
		if err != nil {
			return errors.Join(err, out.finish())
		}
		if !f.Terminal() {
			continue
		}
		if err := out.finish(); err != nil {
			return err
		}
		switch f.Kind {
		case plane.KindAbsent:
			return plane.ErrNotFound
		case plane.KindStale:
			con.say("the live plane can't go on from here; follow with --plane auto")
			return exitStatus(exitFailure)
		}
		return ended(con, f.Status, f.Error)
	}
	return nil
}

// explain says why there is no text if nobody has opened the stream yet, which
// may last. What else it finds is said by the frames.
func (t tailCmd) explain(ctx context.Context, con *console, c *client.Client) {
	if snap, err := c.Snapshot(ctx, t.ID); err == nil && snap.Status == plane.StatusPending {
		con.say("the stream has not been opened yet; waiting for its producer")
	}
}

// printer prints frames.
type printer struct {
	con  *console
	json bool
	w    *bufio.Writer

	pos    int64 // offset of what comes next
	seen   seen
	begun  bool // there was a frame
	within bool // the last thing printed was no whole line
}

func (p *printer) frame(f plane.Frame) error {
	first := !p.begun
	p.begun = true
	if p.json {
		_, _ = p.w.Write(append(plane.AppendJSON(nil, f), '\n')) // Flush has the error
		return p.flush()
	}
	switch f.Kind {
	case plane.KindOpen:
		if f.From < p.pos && (first || !p.seen.again(f.From)) {
			p.back(f.From)
		}
		p.pos = f.From
		p.seen.durable(f.DurableSeq)
	case plane.KindDurable:
		p.seen.durable(f.Seq)
	case plane.KindChunk:
		text, same := p.seen.fresh(f)
		if !same {
			p.back(f.From)
		}
		_, _ = p.w.WriteString(text)
		p.pos = f.Seq
		if text != "" {
			p.within = !strings.HasSuffix(text, "\n")
		}
	case plane.KindEnd:
		if !p.seen.whole() {
			p.back(f.Seq)
		}
	}
	return p.flush()
}

// back says that what was printed from an offset on is not the stream's text.
func (p *printer) back(to int64) { p.con.say("the text goes back to offset %d", to) }

// finish leaves a terminal's cursor at the start of a line.
func (p *printer) finish() error {
	if p.within && isTerminal(p.con.out) {
		_ = p.w.WriteByte('\n')
	}
	return p.flush()
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
