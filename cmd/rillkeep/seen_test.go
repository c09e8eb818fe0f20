package main

import (
	"bufio"
	"bytes"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func TestTailPrintsOnceWhatComesAgainFromAnotherNode(t *testing.T) {
	t.Parallel()
	open := func(from int64) plane.Frame { return plane.Frame{Kind: plane.KindOpen, From: from, DurableSeq: from} }
	chunk := func(from int64, text string) plane.Frame {
		return plane.Frame{Kind: plane.KindChunk, From: from, Seq: from + plane.Units(text), Text: text}
	}
	durable := func(seq int64) plane.Frame { return plane.Frame{Kind: plane.KindDurable, Seq: seq} }
	end := func(seq int64) plane.Frame {
		return plane.Frame{Kind: plane.KindEnd, Seq: seq, Status: plane.StatusInterrupted}
	}
	for name, tt := range map[string]struct {
		frames   []plane.Frame
		out, err string
	}{
		"the same": {
			[]plane.Frame{open(0), chunk(0, "ab"), durable(2), chunk(2, "c😀d"), chunk(6, "e"), open(3), chunk(3, "😀"), chunk(5, "defg"), end(9)},
			"abc😀defg", "",
		},
		"twice": {
			[]plane.Frame{open(0), chunk(0, "abcd"), open(0), chunk(0, "ab"), open(0), chunk(0, "abc"), chunk(3, "def")},
			"abcdef", "",
		},
		"from within what was printed at once": {
			[]plane.Frame{open(0), chunk(0, "abcdef"), durable(4), open(4), chunk(4, "e"), chunk(5, "fg")},
			"abcdefg", "",
		},
		"another text": {
			[]plane.Frame{open(0), chunk(0, "abcdef"), open(2), chunk(2, "cd"), chunk(4, "EFG"), open(3), chunk(3, "dEFG"), chunk(7, "h"), end(8)},
			"abcdefEFGh", "rillkeep: the text goes back to offset 4\n",
		},
		"less of it": {
			[]plane.Frame{open(0), chunk(0, "abcdef"), open(2), chunk(2, "c"), end(3)},
			"abcdef", "rillkeep: the text goes back to offset 3\n",
		},
		"from below what was durable": {
			[]plane.Frame{open(0), chunk(0, "abcdef"), durable(6), open(2), chunk(2, "cdef")},
			"abcdefcdef", "rillkeep: the text goes back to offset 2\n",
		},
	} {
		var out, said bytes.Buffer
		p := &printer{con: &console{out: &out, err: &said}, w: bufio.NewWriter(&out)}
		for _, f := range tt.frames {
			if err := p.frame(f); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != tt.out || said.String() != tt.err {
			t.Errorf("%s: printed %q and said %q, want %q and %q", name, &out, &said, tt.out, tt.err)
		}
	}
}
