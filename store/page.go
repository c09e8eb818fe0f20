package store

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

const (
	DefaultPage int64 = 64 << 10 // units in a page that asks for no number
	MaxPage     int64 = 1 << 20  // units in the largest page
)

// MarkEvery is how many characters (code points) lie between two marks.
const MarkEvery = 32 << 10

// Marks answers the offset of every MarkEvery-th character of body but the
// first. Databases address text by character, readers by UTF-16 unit: with the
// marks beside it a page of a large body is found without reading all of it.
// Character k*MarkEvery is at offset marks[k-1].
func Marks(body string) []int64 {
	marks := []int64{}
	var units int64
	var chars int
	for _, r := range body {
		if chars == MarkEvery {
			marks = append(marks, units)
			chars = 0
		}
		chars++
		units++
		if r > 0xFFFF {
			units++
		}
	}
	return marks
}

// Span clamps what Text was asked for, as far as the length of the text does
// not matter.
func Span(from, limit int64) (int64, int64) {
	if limit <= 0 {
		limit = DefaultPage
	}
	return max(from, 0), min(limit, MaxPage)
}

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

// NewPage makes the page that was asked for with from and limit, which Span
// gave, of a row and the pieces of its text around there.
func NewPage(row plane.Row, hasError bool, from, limit int64, pieces []Piece) (Page, error) {
	page := Page{Row: row, HasError: hasError, From: min(from, row.Seq)}
	to := min(page.From+limit, row.Seq)
	var err error
	page.Text, page.From, err = Stretch(pieces, page.From, to)
	if err != nil {
		return Page{}, err
	}
	return page, nil
}

// Stretch answers the text from offset from to offset to, each rounded down to
// where a character begins, but never to nothing; and where it begins. Each
// piece counts where it lies, so that one that is covered adds nothing and
// one that is missing is a plane.HoleError.
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
	for i, r := range s {
		size := int64(1)
		if r > 0xFFFF {
			size = 2
		}
		if start+size > off {
			return i, start
		}
		start += size
	}
	return len(s), start
}
