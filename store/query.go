package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

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

var statuses = []plane.Status{
	plane.StatusPending, plane.StatusStreaming, plane.StatusComplete,
	plane.StatusCancelled, plane.StatusError, plane.StatusInterrupted,
}

// Max is how many streams the list may hold.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return DefaultList
	}
	return min(q.Limit, MaxList)
}

// Check reports a status that there is none of.
func (q Query) Check() error {
	if q.Status != "" && !slices.Contains(statuses, q.Status) {
		return fmt.Errorf("list streams: no status is called %q", q.Status)
	}
	return nil
}

// Where is the query as the end of a SELECT from the table streams, whose
// parameters are named by mark ("$" or "?") and a number. The prefix is a range
// of the primary key. The status, which Check passed, is written out: with a
// parameter a database could not tell that its index of the rows that are not
// complete will do; they are few, where the complete ones are found at once.
func (q Query) Where(mark string) (sql string, args []any) {
	var terms []string
	add := func(term string, arg any) {
		args = append(args, arg)
		terms = append(terms, term+mark+strconv.Itoa(len(args)))
	}
	switch q.Status {
	case "":
	case plane.StatusComplete:
		terms = append(terms, "status = 'complete'")
	default:
		terms = append(terms, "status = '"+string(q.Status)+"' AND status <> 'complete'")
	}
	if q.After >= q.Prefix {
		add("id > ", q.After)
	} else {
		add("id >= ", q.Prefix)
	}
	if end := successor(q.Prefix); end != "" {
		add("id < ", end)
	}
	args = append(args, q.Max())
	return " WHERE " + strings.Join(terms, " AND ") + " ORDER BY id LIMIT " + mark + strconv.Itoa(len(args)), args
}

// successor is the least text above all that begin with prefix, in the order of
// bytes; "" if there is none.
func successor(prefix string) string {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xD7FF:
			r = 0xE000 // surrogates are no characters
		default:
			r++
		}
		return prefix + string(r)
	}
	return ""
}
