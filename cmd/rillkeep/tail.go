package main

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"rillkeep.dev/rillkeep/plane"
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
was cancelled, 4 if it ended with an error, 5 if it was interrupted. With --json
each frame is a line.

Examples:
  rillkeep tail m1
  rillkeep tail --from 512 --json m1`
}

// Run prints the stream.
func (t tailCmd) Run(ctx context.Context, io *console) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(io.out)
	defer out.Flush()
	for f, err := range c.Follow(ctx, t.ID, t.From, t.Plane) {
		if err != nil {
			return err
		}
		if err := t.print(out, io.err, f); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		if f.Terminal() {
			return t.ended(io.err, f)
		}
	}
	return nil
}

func (t tailCmd) print(out *bufio.Writer, errOut io.Writer, f plane.Frame) error {
	switch {
	case t.JSON:
		_, _ = out.Write(append(plane.AppendJSON(nil, f), '\n'))
	case f.Kind == plane.KindChunk:
		_, _ = out.WriteString(f.Text)
	case f.Kind == plane.KindOpen && f.From < t.From:
		fmt.Fprintf(errOut, "rillkeep: the text goes back to offset %d\n", f.From)
	}
	return out.Flush()
}

// ended is the exit code for the last frame.
func (t tailCmd) ended(errOut io.Writer, f plane.Frame) error {
	switch {
	case f.Kind == plane.KindAbsent:
		return plane.ErrNotFound
	case f.Kind == plane.KindStale:
		fmt.Fprintln(errOut, "rillkeep: the live plane can't go on from here; follow with --plane auto")
		return exitStatus(exitFailure)
	case f.HasError:
		fmt.Fprintln(errOut, "rillkeep: the stream failed:", f.Error)
	}
	return statusCode(f.Status)
}
