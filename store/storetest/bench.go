package storetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// BenchmarkAppend measures checkpoints of 512 units, of one stream and of many
// at once; an operation is one checkpoint.
func BenchmarkAppend(b *testing.B, open func(*testing.B) store.Store) {
	text := strings.Repeat("0123456789abcde ", 32)
	for _, streams := range []int{1, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			s := open(b)
			rows := make([]plane.Row, streams)
			for n := range rows {
				rows[n] = opened(b, s, fmt.Sprint(n))
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for n := range rows {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						row := rows[n]
						slice := plane.Slice{ID: fmt.Sprint(n), Token: row.Token, From: row.Seq, Seq: row.Seq + int64(len(text)), Text: text}
						next, err := s.Append(b.Context(), slice)
						if err != nil || next.Seq != slice.Seq {
							b.Errorf("append: %+v, %v", next, err)
							return
						}
						rows[n] = next
					}
				})
			}
			all.Wait()
		})
	}
}

// BenchmarkText measures pages of the default size of texts of a megabyte that
// live and that ended; an operation is one page.
func BenchmarkText(b *testing.B, open func(*testing.B) store.Store) {
	s := open(b)
	const slices = 2500
	slice := strings.Repeat("Row 0123 äöü 漢字 😀. ", 20)
	text := strings.Repeat(slice, slices)
	units := plane.Units(text)
	row := opened(b, s, "live")
	for range slices {
		row = appended(b, s, "live", row, slice)
	}
	ended := opened(b, s, "ended")
	sealed(b, s, plane.Seal{ID: "ended", Token: ended.Token, Status: plane.StatusComplete, Seq: units, Text: text})
	for _, id := range []string{"live", "ended"} {
		b.Run(id, func(b *testing.B) {
			at := int64(0)
			for b.Loop() {
				page := must(s.Text(b.Context(), id, at, 0))(b)
				if at = page.End(); at == units {
					at = 0
				}
			}
		})
	}
}
