// Package storetest is what package store asks of a database, as tests that
// every one of them runs; and a store in memory that fails as it is told, for
// tests of those who use one.
package storetest

import (
	"context"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/store"
)

// Backdoor reads and writes rows past the contract, as an application's own SQL
// can. What Run is given must have it.
type Backdoor interface {
	Row(id string) (row Row, ok bool)
	Edit(id string, edit func(*Row))
	Delete(id string)
}

// Run holds a store to its contract. open answers an empty store that ends with
// the test; it must be a Backdoor as well.
func Run(t *testing.T, open func(testing.TB) store.Store) {
	run(t, Lacks{}, open)
}

func run(t *testing.T, lacks Lacks, open func(testing.TB) store.Store) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, func(testing.TB) backed)
	}{
		{"open", testOpen}, {"append", testAppend}, {"append changes nothing", testIdleAppend},
		{"seal", testSeal}, {"seal changes nothing", testIdleSeal}, {"ending", testEnding}, {"cancel", testCancel},
		{"text", testText}, {"snapshot", testSnapshot}, {"list", testList}, {"row", testRow}, {"handover", testHandover},
		{"takeover", testTakeover}, {"close", testClose},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(t, func(tb testing.TB) backed {
				tb.Helper()
				s := open(tb)
				door, ok := s.(Backdoor)
				if !ok {
					tb.Fatal("the store has no Backdoor")
				}
				return backed{s, door, lacks}
			})
		})
	}
}

// each runs every test of a part on a store of its own.
func each(t *testing.T, open func(testing.TB) backed, tests map[string]func(*testing.T, backed)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// bounded is a context that ends before the test run would.
func bounded(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}
