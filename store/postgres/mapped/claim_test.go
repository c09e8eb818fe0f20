package mapped_test

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

const (
	node  = "n1/boot1"
	token = node + "/1"
)

func claim(t *testing.T, s store.Store, id string) plane.Row {
	t.Helper()
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func appended(t *testing.T, s store.Store, id string, row plane.Row, text string) plane.Row {
	t.Helper()
	to := row.Seq + plane.Units(text)
	next, err := s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: to, Text: text})
	if err != nil || next.Seq != to {
		t.Fatalf("appended up to %d: %+v, %v", to, next, err)
	}
	return next
}
