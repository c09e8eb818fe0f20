package plane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Chunk is a row of the durable plane: text that ends at offset Seq.
type Chunk struct {
	Seq  int64 // UTF-16 code units
	Text string
}

// HoleError says that rows of the durable plane are missing: there is no text
// from At up to Next.
type HoleError struct {
	At, Next int64 // UTF-16 code units
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("no text from %d to %d", e.At, e.Next)
}

// Assemble returns a stream's durable text: body, and the chunks beyond it, which
// come in any order. Each is placed by its end and its length, so that what
// body, or another chunk, covers adds nothing: body and chunks may be of
// different moments. At the first hole it stops, with the text so far and a
// HoleError.
func Assemble(body string, chunks []Chunk) (string, error) {
	byEnd := func(a, b Chunk) int { return cmp.Compare(a.Seq, b.Seq) }
	if !slices.IsSortedFunc(chunks, byEnd) {
		chunks = slices.Clone(chunks)
		slices.SortStableFunc(chunks, byEnd)
	}
	var b strings.Builder
	b.WriteString(body)
	end := Units(body)
	for _, c := range chunks {
		units := Units(c.Text)
		from := c.Seq - units
		switch {
		case c.Seq <= end:
			continue
		case from < 0:
			return mended(b.String()), fmt.Errorf("chunk that ends at %d holds %d units", c.Seq, units)
		case from > end:
			return mended(b.String()), &HoleError{end, from}
		}
		b.WriteString(dropUnits(c.Text, units, end-from))
		end = c.Seq
	}
	return mended(b.String()), nil
}

// mended returns s with the halves of pairs that meet in it joined.
func mended(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return decodeHalves(encodeHalves(s))
}
