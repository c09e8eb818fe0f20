package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// announcement is the first line that a node's process prints.
type announcement struct {
	URL string `json:"url"`
}

// Announce tells who started this process, at the other end of its standard
// output, where its node is.
func Announce(out io.Writer, url string) error {
	line, err := json.Marshal(announcement{url})
	if err != nil {
		return fmt.Errorf("encode address: %w", err)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	return nil
}

// Lifeline returns a context that is done when in, this process's standard input,
// ends: with who started it, however that ended. It reads in for as long as the
// process lives.
func Lifeline(in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // however it ends, it has
	}()
	return ctx
}
