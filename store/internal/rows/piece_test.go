package rows_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

var texts = rapid.StringOfN(rapid.SampledFrom([]rune("abc é漢\n😀🚀\U0010FFFF")), 0, 40, -1)

// cut draws pieces that together make text; some overlap, in no order.
func cut(t *rapid.T, text string) []rows.Piece {
	var pieces []rows.Piece
	runes := []rune(text)
	at := 0
	for at < len(runes) {
		back := rapid.IntRange(0, at).Draw(t, "back")
		to := rapid.IntRange(at+1, len(runes)).Draw(t, "to")
		piece := string(runes[back:to])
		if rapid.Bool().Draw(t, "by end") {
			pieces = append(pieces, rows.ChunkPiece(plane.Units(string(runes[:to])), piece))
		} else {
			pieces = append(pieces, rows.BodyPiece(plane.Units(string(runes[:back])), piece))
		}
		at = to
	}
	return rapid.Permutation(pieces).Draw(t, "pieces")
}

func TestAMissingPieceIsAHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Filter(func(s string) bool { return s != "" }).Draw(t, "text")
		pieces := cut(t, text)
		lost := rapid.IntRange(0, len(pieces)-1).Draw(t, "lost")
		gone := pieces[lost]
		pieces = slices.Delete(pieces, lost, lost+1)
		got, _, err := rows.Stretch(pieces, 0, plane.Units(text))
		if err == nil {
			if got != text {
				t.Fatalf("got %q", got)
			}
			return // others cover it
		}
		hole, ok := errors.AsType[*plane.HoleError](err)
		if !ok || hole.At < gone.From || hole.At >= gone.End || hole.Next <= hole.At || hole.Next > gone.End {
			t.Fatalf("without %+v: %v", gone, err)
		}
	})
}

// One rule places the rows of a text, for readers of pages and of whole texts.
func TestOfAWholeTextStretchMakesWhatAssembleDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := []rune(texts.Draw(t, "text"))
		units := plane.Units(string(runes))
		var chunks []plane.Chunk
		for at := 0; at < len(runes); {
			to := rapid.IntRange(at+1, len(runes)).Draw(t, "to")
			chunks = append(chunks, plane.Chunk{Seq: plane.Units(string(runes[:to])), Text: string(runes[at:to])})
			at = to
		}
		if len(chunks) > 0 && rapid.Bool().Draw(t, "with a hole") {
			lost := rapid.IntRange(0, len(chunks)-1).Draw(t, "lost")
			chunks = slices.Delete(chunks, lost, lost+1)
		}
		body := string(runes[:rapid.IntRange(0, len(runes)).Draw(t, "body")]) // of another moment than the chunks
		pieces := []rows.Piece{rows.BodyPiece(0, body)}
		for _, c := range chunks {
			pieces = append(pieces, rows.ChunkPiece(c.Seq, c.Text))
		}
		want, wantErr := plane.Assemble(body, chunks)
		got, _, err := rows.Stretch(rapid.Permutation(pieces).Draw(t, "pieces"), 0, units)
		if end := plane.Units(want); wantErr == nil && end < units {
			wantErr = &plane.HoleError{At: end, Next: units} // the row says that there is more
		}
		if wantErr != nil {
			want = ""
		}
		if diff := cmp.Diff(wantErr, err); got != want || diff != "" {
			t.Fatalf("got %q, %v, want %q, %v", got, err, want, wantErr)
		}
	})
}

func TestPieces(t *testing.T) {
	for name, c := range map[string]struct {
		pieces   []rows.Piece
		from, to int64
		want     string
		hole     *plane.HoleError
	}{
		"none for no text":                 {},
		"a torn read adds nothing twice":   {[]rows.Piece{rows.BodyPiece(0, "abcdef"), rows.ChunkPiece(3, "abc"), rows.ChunkPiece(6, "def")}, 0, 6, "abcdef", nil},
		"equal ends, one longer":           {[]rows.Piece{rows.ChunkPiece(4, "abcd"), rows.ChunkPiece(5, "abcde")}, 0, 5, "abcde", nil},
		"nothing at the start":             {[]rows.Piece{rows.ChunkPiece(6, "def")}, 0, 6, "", &plane.HoleError{At: 0, Next: 3}},
		"nothing at the end":               {[]rows.Piece{rows.ChunkPiece(3, "abc")}, 1, 6, "", &plane.HoleError{At: 3, Next: 6}},
		"a piece that cuts another's pair": {[]rows.Piece{rows.BodyPiece(0, "ab"), rows.BodyPiece(1, "😀c")}, 0, 4, "", &plane.HoleError{At: 2, Next: 4}},
		"one that reaches below zero":      {[]rows.Piece{rows.ChunkPiece(2, "abcd")}, 0, 2, "cd", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := rows.Stretch(c.pieces, c.from, c.to)
			hole, _ := errors.AsType[*plane.HoleError](err)
			if diff := cmp.Diff(c.hole, hole); got != c.want || diff != "" || (err != nil) != (hole != nil) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
