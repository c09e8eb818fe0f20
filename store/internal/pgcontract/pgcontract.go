// Package pgcontract holds the stores in PostgreSQL to what they promise alike,
// beside the contract of package storetest.
package pgcontract

import (
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/internal/group"
	"rillkeep.dev/rillkeep/store/storetest"
)

// Subject is a store over new tables, and what a test needs of them.
type Subject struct {
	store.Store
	storetest.Backdoor

	Tokenless bool                                               // the tables have no owner tokens
	Batch     func(slices []plane.Slice) ([]group.Answer, error) // appends one batch
	Lock      func(tb testing.TB, id string) (release func())    // as an application may
	Refuse    func(tb testing.TB, text string)                   // makes the chunk table refuse such a text
}

const node, token = "n1/boot1", "n1/boot1/1"

// Run runs all tests. open answers a new subject each time.
func Run(t *testing.T, open func(testing.TB) *Subject) {
	for name, test := range map[string]func(*testing.T, func(testing.TB) *Subject){
		"a seal folds what the database has":                     testFold,
		"each slice of a batch is judged by its own row":         testJudged,
		"a locked row costs no other of its batches":             testLocked,
		"a bad slice costs no other of its batches":              testBadSlice,
		"messages reach all who listen, in their order, or none": testFeed,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// claim opens a stream, of a row that is there.
func (s *Subject) claim(t *testing.T, id string) plane.Row {
	t.Helper()
	if _, ok := s.Row(id); !ok {
		s.Edit(id, func(*storetest.Row) {})
	}
	row, err := s.Open(t.Context(), plane.Claim{ID: id, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// append adds text to a row, and answers it as it is then.
func (s *Subject) append(t *testing.T, id string, row plane.Row, text string) plane.Row {
	t.Helper()
	to := row.Seq + plane.Units(text)
	next, err := s.Append(t.Context(), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: to, Text: text})
	if err != nil || next.Seq != to {
		t.Fatalf("append to %s: %+v, %v", id, next, err)
	}
	return next
}
