package rows

import (
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// Window clamps what Text was asked for, as far as the length of the text does
// not matter.
func Window(from, limit int64) (int64, int64) {
	if limit <= 0 {
		limit = store.DefaultPage
	}
	return max(from, 0), min(limit, store.MaxPage)
}

// Page is the page that was asked for with from and limit, which Window gave,
// of a row and the pieces of its text around there.
func Page(row plane.Row, hasError bool, from, limit int64, pieces []Piece) (store.Page, error) {
	page := store.Page{Row: row, HasError: hasError, From: min(from, row.Seq)}
	to := min(page.From+limit, row.Seq)
	var err error
	page.Text, page.From, err = Stretch(pieces, page.From, to)
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// MarkEvery is how many characters (code points) lie between two marks.
const MarkEvery = 32 << 10

// Marks answers the offset of every MarkEvery-th character of body but the
// first. Databases address text by character, readers by UTF-16 unit: with the
// marks beside it a page of a large body is found without reading all of it.
// Character k*MarkEvery is at offset marks[k-1].
func Marks(body string) []int64 {
	var m Measure
	m.Add(body)
	return m.Marks()
}

// Measure is what is known of a text that was seen piece by piece. The zero Measure
// is of no text.
type Measure struct {
	Units, Bytes int64

	chars int // since the last mark
	marks []int64
}

// Add adds the piece that follows.
func (m *Measure) Add(text string) {
	for _, r := range text {
		if m.chars == MarkEvery {
			m.marks = append(m.marks, m.Units)
			m.chars = 0
		}
		m.chars++
		m.Units++
		if r > 0xFFFF {
			m.Units++
		}
	}
	m.Bytes += int64(len(text))
}

// Marks answers the Marks of the text; not nil.
func (m *Measure) Marks() []int64 { return append([]int64{}, m.marks...) }
