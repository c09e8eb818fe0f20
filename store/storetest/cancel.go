package storetest

import (
	"errors"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func testCancel(t *testing.T, open func(testing.TB) backed) {
	if s := open(t); s.lacks.Cancel {
		row := opened(t, s, "s")
		if _, err := s.Cancel(bounded(t), "s"); !errors.Is(err, store.ErrNoCancel) {
			t.Errorf("a store without the flag answers %v", err)
		}
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
		return
	}
	each(t, open, map[string]func(*testing.T, backed){
		"sets the flag once and for all": func(t *testing.T, s backed) {
			row := appended(t, s, "s", opened(t, s, "s"), "abc")
			row.Cancel = true
			for range 2 {
				equal(t, cancelled(t, s, "s"), row)
			}
			equal(t, must(s.Read(bounded(t), "s"))(t), row)
		},
		"of a row that has not begun counts when it does": func(t *testing.T, s backed) {
			s.Edit("s", func(*Row) {})
			if !cancelled(t, s, "s").Cancel || !opened(t, s, "s").Cancel {
				t.Error("the flag is gone")
			}
		},
		"leaves an ended row": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete})
			equal(t, cancelled(t, s, "s"), end)
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			if _, err := s.Cancel(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		},
	})
}
