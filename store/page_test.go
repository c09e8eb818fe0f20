package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

var texts = rapid.StringOfN(rapid.SampledFrom([]rune("abc é漢\n😀🚀\U0010FFFF")), 0, 40, -1)

// cut draws pieces that together make text; some overlap, in no order.
func cut(t *rapid.T, text string) []store.Piece {
	var pieces []store.Piece
	runes := []rune(text)
	at := 0
	for at < len(runes) {
		back := rapid.IntRange(0, at).Draw(t, "back")
		to := rapid.IntRange(at+1, len(runes)).Draw(t, "to")
		piece := string(runes[back:to])
		if rapid.Bool().Draw(t, "by end") {
			pieces = append(pieces, store.ChunkPiece(plane.Units(string(runes[:to])), piece))
		} else {
			pieces = append(pieces, store.BodyPiece(plane.Units(string(runes[:back])), piece))
		}
		at = to
	}
	return rapid.Permutation(pieces).Draw(t, "pieces")
}

func TestPagesSplitNoPairAndMakeTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		pieces := cut(t, text)
		row := plane.Row{Seq: plane.Units(text)}
		limit := rapid.Int64Range(1, 50).Draw(t, "limit")
		var got strings.Builder
		for at := int64(0); at < row.Seq; {
			page, err := store.NewPage(row, false, at, limit, pieces)
			if err != nil || page.From != at || page.Text == "" || !utf8.ValidString(page.Text) {
				t.Fatalf("at %d: %+v, %v", at, page, err)
			}
			got.WriteString(page.Text)
			at = page.End()
		}
		if got.String() != text {
			t.Fatalf("got %q", got.String())
		}
		from := rapid.Int64Range(0, row.Seq).Draw(t, "from")
		page, err := store.NewPage(row, false, from, store.MaxPage, pieces)
		if err != nil || page.From < from-1 || page.From > from {
			t.Fatalf("from %d: %+v, %v", from, page, err)
		}
		if units := utf16.Encode([]rune(text)); page.Text != string(utf16.Decode(units[page.From:])) {
			t.Fatalf("from %d: %+v", from, page)
		}
	})
}

func TestAMissingPieceIsAHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Filter(func(s string) bool { return s != "" }).Draw(t, "text")
		pieces := cut(t, text)
		lost := rapid.IntRange(0, len(pieces)-1).Draw(t, "lost")
		gone := pieces[lost]
		pieces = slices.Delete(pieces, lost, lost+1)
		got, _, err := store.Stretch(pieces, 0, plane.Units(text))
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

func TestPieces(t *testing.T) {
	for name, c := range map[string]struct {
		pieces   []store.Piece
		from, to int64
		want     string
		hole     *plane.HoleError
	}{
		"none for no text":                 {},
		"a torn read adds nothing twice":   {[]store.Piece{store.BodyPiece(0, "abcdef"), store.ChunkPiece(3, "abc"), store.ChunkPiece(6, "def")}, 0, 6, "abcdef", nil},
		"equal ends, one longer":           {[]store.Piece{store.ChunkPiece(4, "abcd"), store.ChunkPiece(5, "abcde")}, 0, 5, "abcde", nil},
		"nothing at the start":             {[]store.Piece{store.ChunkPiece(6, "def")}, 0, 6, "", &plane.HoleError{At: 0, Next: 3}},
		"nothing at the end":               {[]store.Piece{store.ChunkPiece(3, "abc")}, 1, 6, "", &plane.HoleError{At: 3, Next: 6}},
		"a piece that cuts another's pair": {[]store.Piece{store.BodyPiece(0, "ab"), store.BodyPiece(1, "😀c")}, 0, 4, "", &plane.HoleError{At: 2, Next: 4}},
		"one that reaches below zero":      {[]store.Piece{store.ChunkPiece(2, "abcd")}, 0, 2, "cd", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := store.Stretch(c.pieces, c.from, c.to)
			hole, _ := errors.AsType[*plane.HoleError](err)
			if diff := cmp.Diff(c.hole, hole); got != c.want || diff != "" || (err != nil) != (hole != nil) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestMarksAreTheOffsetsOfCharacters(t *testing.T) {
	body := strings.Repeat("a😀漢", store.MarkEvery)
	runes := []rune(body)
	marks := store.Marks(body)
	if want := (len(runes) - 1) / store.MarkEvery; len(marks) != want {
		t.Fatalf("%d marks, want %d", len(marks), want)
	}
	for n, mark := range marks {
		if want := plane.Units(string(runes[:(n+1)*store.MarkEvery])); mark != want {
			t.Errorf("mark %d is %d, want %d", n, mark, want)
		}
	}
	for _, n := range []int{0, 1, store.MarkEvery} {
		if marks := store.Marks(string(runes[:n])); marks == nil || len(marks) != 0 {
			t.Errorf("%d characters have marks %v", n, marks)
		}
	}
}
