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
