package store

import "rillkeep.dev/rillkeep/plane"

const (
	DefaultList = 100  // streams in a list that asks for no number
	MaxList     = 1000 // streams in the longest list
)

// Query asks for a list of streams. The zero Query asks for the first page of
// all.
type Query struct {
	Status plane.Status // "" means any
	Prefix string       // of the id; taken as it is, there are no wildcards
	After  string       // ids after this one: the last of the page before
	Limit  int          // streams at most; 0 means DefaultList, the most is MaxList
}
