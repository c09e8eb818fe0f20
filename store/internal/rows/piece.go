package rows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

// Piece is a stretch of stored text. Pieces may come in any order and overlap.
type Piece struct {
	From, End int64
	Text      string
}

// BodyPiece is text that begins at offset from.
func BodyPiece(from int64, text string) Piece {
	return Piece{From: from, End: from + plane.Units(text), Text: text}
}

// ChunkPiece is text that ends at offset end: the offset of a chunk row.
func ChunkPiece(end int64, text string) Piece {
	return Piece{From: end - plane.Units(text), End: end, Text: text}
}

// Pieces are a body that begins at offset base, and chunks that end at ends.
func Pieces(base int64, body string, ends []int64, texts []string) []Piece {
	pieces := make([]Piece, 0, 1+len(ends))
	pieces = append(pieces, BodyPiece(base, body))
	for n, end := range ends {
		pieces = append(pieces, ChunkPiece(end, texts[n]))
	}
	return pieces
}

// Stretch answers the text from offset from to offset to, each rounded down to
// where a character begins, but never to nothing; and where it begins. Each
// piece counts where it lies, so that one that is covered adds nothing and
// one that is missing is a plane.HoleError.
//
// Of a whole text it makes what plane.Assemble does. That one reads what any
// database holds, halves of pairs included, and so far as there is no hole;
// this one reads a part, of characters, and never cuts or mends one.
func Stretch(pieces []Piece, from, to int64) (text string, at int64, err error) {
	pieces = slices.SortedStableFunc(slices.Values(pieces), func(a, b Piece) int { return cmp.Compare(a.From, b.From) })
	var parts []string
	at = from
	pos := from
	for _, p := range pieces {
		if p.End <= pos || p.Text == "" {
			continue
		}
		if pos >= to {
			break
		}
		if p.From > pos {
			return "", 0, &plane.HoleError{At: pos, Next: p.From}
		}
		first, start := index(p.Text, pos-p.From)
		switch start += p.From; {
		case start == pos:
		case len(parts) == 0:
			at = start
		default: // it differs from what lies below it: it is of no use here
			continue
		}
		last, end := len(p.Text), p.End
		if p.End > to {
			last, end = index(p.Text, to-p.From)
			if last == first && len(parts) == 0 { // half of a pair was asked for
				_, size := utf8.DecodeRuneInString(p.Text[first:])
				last, end = first+size, end+2
			}
			end += p.From
			to = end
		}
		parts = append(parts, p.Text[first:last])
		pos = end
	}
	if pos < to {
		return "", 0, &plane.HoleError{At: pos, Next: to}
	}
	return strings.Join(parts, ""), at, nil
}

// index returns the byte of s at offset off, and the offset of that byte: off,
// or one less where off lies between the halves of a pair. off is within s.
func index(s string, off int64) (at int, start int64) {
	at = len(s) - len(plane.Skip(s, off))
	return at, plane.Units(s[:at])
}

// Whole answers all of the text of a row whose length is seq, or, if hole is not
// nil, what there is of it up to its first hole; and where that ends.
func Whole(pieces []Piece, seq int64) (text string, end int64, hole *plane.HoleError) {
	text, _, err := Stretch(pieces, 0, seq)
	if errors.As(err, &hole) {
		end = hole.At
		text, _, _ = Stretch(pieces, 0, end) // all of it is there
		return text, end, hole
	}
	return text, seq, nil
}

// Missing says, to be kept as the error of a row whose length is seq, why its
// stream ends at a hole.
func Missing(hole *plane.HoleError, seq int64) string {
	if hole.At >= seq {
		return fmt.Sprintf("the database has lost text that was durable: what follows %d", hole.At)
	}
	return fmt.Sprintf("text that was durable was deleted by others: %v", hole)
}
