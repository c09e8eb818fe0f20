package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"rillkeep.dev/rillkeep/router/client"
)

type showCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (showCmd) Help() string {
	return "Example:\n  rillkeep show --json m1"
}

// Run prints the stream's text, or with --json all that is known of it.
func (s showCmd) Run(ctx context.Context, io *console) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	snap, err := c.Snapshot(ctx, s.ID)
	if err != nil {
		return err
	}
	if s.JSON {
		return json.NewEncoder(io.out).Encode(snap)
	}
	_, err = fmt.Fprint(io.out, snap.Text)
	return err
}

type lsCmd struct {
	remote
	Status string `help:"Only streams of this status: streaming, complete, cancelled, error or interrupted." placeholder:"STATUS"`
	Prefix string `help:"Only streams whose id begins so." placeholder:"TEXT"`
}

// Help is printed below the flags.
func (lsCmd) Help() string {
	return "Examples:\n  rillkeep ls --status streaming\n  rillkeep ls --prefix chat- --json"
}

// Run prints the streams, page by page.
func (l lsCmd) Run(ctx context.Context, io *console) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	if !l.JSON {
		fmt.Fprintln(table, "STREAM\tSTATUS\tLENGTH\tUPDATED\tERROR")
	}
	for q := (client.Query{Status: l.Status, Prefix: l.Prefix}); ; {
		page, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for _, s := range page.Streams {
			if l.JSON {
				_ = json.NewEncoder(io.out).Encode(s)
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", s.StreamID, s.Status, s.Seq, s.UpdatedAt.Format(time.RFC3339), s.Error)
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

type flushCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (flushCmd) Help() string { return "Example:\n  rillkeep flush m1" }

// Run prints the durable length.
func (f flushCmd) Run(ctx context.Context, io *console) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	ack, err := c.Flush(ctx, f.ID)
	if err != nil {
		return err
	}
	return f.print(io, ack, fmt.Sprintf("durable through %d", ack.DurableSeq))
}

type cancelCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (cancelCmd) Help() string { return "Example:\n  rillkeep cancel m1" }

// Run prints the stream's status.
func (c cancelCmd) Run(ctx context.Context, io *console) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	sealed, err := cl.Cancel(ctx, c.ID)
	if err != nil {
		return err
	}
	text := string(sealed.Status)
	if !sealed.Status.Ended() {
		text = "asked to stop"
	}
	return c.print(io, sealed, text)
}

// print writes v as JSON where that was asked for, else the text.
func (r remote) print(io *console, v any, text string) error {
	if r.JSON {
		return json.NewEncoder(io.out).Encode(v)
	}
	_, err := fmt.Fprintln(io.out, text)
	return err
}
