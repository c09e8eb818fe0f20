package storetest

import (
	"fmt"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// testSnapshot is of reads in the middle of writes: text and row of a page are of
// one moment, before a seal, after it and in between.
func testSnapshot(t *testing.T, open func(testing.TB) backed) {
	s := open(t)
	const slices, size = 8, 200
	text := strings.Repeat("x", slices*size)
	for round := range 40 {
		id := fmt.Sprint("s", round)
		row := opened(t, s, id)
		read := make(chan error, 1)
		go func() { read <- readUntilTheEnd(t, s, id, text) }()
		for range slices - 1 {
			row = appended(t, s, id, row, text[:size])
		}
		sealed(t, s, plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Seq: int64(len(text)), Text: text})
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
}

func readUntilTheEnd(t *testing.T, s store.Store, id, text string) error {
	ctx := bounded(t)
	var seen int64
	for {
		page, err := s.Text(ctx, id, 0, store.MaxPage)
		switch {
		case err != nil:
			return err
		case int64(len(page.Text)) != page.Seq || !strings.HasPrefix(text, page.Text):
			return fmt.Errorf("%d units of a text of %d", len(page.Text), page.Seq)
		case page.Seq < seen:
			return fmt.Errorf("%d units after %d", page.Seq, seen)
		case page.Status.Ended():
			return nil
		}
		seen = page.Seq
	}
}
