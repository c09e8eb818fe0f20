package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"rillkeep.dev/rillkeep/router/client"
)

type showCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (showCmd) Help() string {
	return "With --json all that is known of the stream is printed.\n\nExamples:\n  rillkeep show m1\n  rillkeep show --json m1"
}

// Run prints the stream's text, or with --json all that is known of it.
func (s showCmd) Run(ctx context.Context, con *console) error {
	c, err := s.client(nil)
	if err != nil {
		return err
	}
	snap, err := c.Snapshot(ctx, s.ID)
	if err != nil {
		return err
	}
	text := snap.Text
	if text != "" && !strings.HasSuffix(text, "\n") && isTerminal(con.out) {
		text += "\n"
	}
	return s.print(con, snap, text)
}

type lsCmd struct {
	remote
	Status *string `help:"Only streams of this status: pending, streaming, complete, cancelled, error or interrupted." enum:"pending,streaming,complete,cancelled,error,interrupted" placeholder:"STATUS"`
	Prefix string  `help:"Only streams whose id begins so." placeholder:"TEXT"`
}

// Help is printed below the flags.
func (lsCmd) Help() string {
	return "Examples:\n  rillkeep ls --status streaming\n  rillkeep ls --prefix chat- --json"
}

// Run prints the streams, page by page.
func (l lsCmd) Run(ctx context.Context, con *console) error {
	c, err := l.client(nil)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(con.out, 0, 0, 2, ' ', 0)
	if !l.JSON {
		fmt.Fprintln(table, "STREAM\tSTATUS\tLENGTH\tUPDATED\tERROR")
	}
	q := client.Query{Prefix: l.Prefix}
	if l.Status != nil {
		q.Status = *l.Status
	}
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for _, s := range page.Streams {
			if l.JSON {
				if err := l.print(con, s, ""); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", s.StreamID, s.Status, s.Seq, when(s.UpdatedAt), oneLine(s.Error))
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// when returns a time as a cell of a table, in which one that the store does not
// keep is a dash.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// oneLine returns what a producer wrote as a cell of a table.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
}

type flushCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (flushCmd) Help() string { return "Example:\n  rillkeep flush m1" }

// Run prints the durable length.
func (f flushCmd) Run(ctx context.Context, con *console) error {
	c, err := f.client(nil)
	if err != nil {
		return err
	}
	ack, err := c.Flush(ctx, f.ID)
	if err != nil {
		return err
	}
	return f.print(con, ack, fmt.Sprintf("durable through %d\n", ack.DurableSeq))
}

type cancelCmd struct {
	remote
	ID string `arg:"" help:"The stream's id."`
}

// Help is printed below the flags.
func (cancelCmd) Help() string { return "Example:\n  rillkeep cancel m1" }

// Run prints the stream's status.
func (c cancelCmd) Run(ctx context.Context, con *console) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	sealed, err := cl.Cancel(ctx, c.ID)
	if err != nil {
		return err
	}
	text := "ended before: " + string(sealed.Status)
	if !sealed.Status.Ended() {
		text = "asked to stop"
	}
	return c.print(con, sealed, text+"\n")
}
