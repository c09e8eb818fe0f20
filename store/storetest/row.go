package storetest

import (
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

func testRow(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"says what was claimed":          rowOfAClaim,
		"says when it began and changed": timesOfARow,
		"without meta has none": func(t *testing.T, s backed) {
			opened(t, s, "s")
			if meta := must(s.Get(bounded(t), "s"))(t).Meta; meta != nil {
				t.Errorf("got %s", meta)
			}
		},
		"is refused where there is none": func(t *testing.T, s backed) {
			if _, err := s.Get(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if _, err := s.Read(bounded(t), "s"); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("read: %v", err)
			}
		},
	})
}

func rowOfAClaim(t *testing.T, s backed) {
	claim := plane.Claim{ID: "é/ %", Node: node, Producer: "app \x00", Meta: []byte(`{"b": 1,  "a":[2, "\ud83d"], "b":2}`)}
	row := appended(t, s, claim.ID, must(s.Open(bounded(t), claim))(t), "abc")
	sealed(t, s, plane.Seal{ID: claim.ID, Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
	want := s.stream(store.Stream{
		ID:       claim.ID,
		Row:      plane.Row{Seq: 3, Status: plane.StatusComplete, Token: row.Token, Epoch: 1},
		Producer: "app \uFFFD", Meta: claim.Meta,
	})
	for _, got := range append(must(s.List(bounded(t), store.Query{}))(t), must(s.Get(bounded(t), claim.ID))(t)) {
		got.Created, got.Updated, got.Ended = time.Time{}, time.Time{}, time.Time{}
		equal(t, got, want)
	}
}

func timesOfARow(t *testing.T, s backed) {
	if s.lacks.Details {
		opened(t, s, "s")
		equal(t, must(s.Get(bounded(t), "s"))(t), s.stream(store.Stream{
			ID: "s", Row: plane.Row{Status: plane.StatusStreaming, Token: node + "/1", Epoch: 1},
		}))
		return
	}
	before := time.Now().Add(-time.Minute) // clocks may differ a little
	row := opened(t, s, "s")
	live := must(s.Get(bounded(t), "s"))(t)
	if live.Created.Before(before) || live.Updated.Before(live.Created) || !live.Ended.IsZero() {
		t.Errorf("live: %+v", live)
	}
	sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete})
	ended := must(s.Get(bounded(t), "s"))(t)
	if !ended.Created.Equal(live.Created) || ended.Ended.Before(ended.Created) || ended.Updated.Before(live.Updated) {
		t.Errorf("ended: %+v, after %+v", ended, live)
	}
}
