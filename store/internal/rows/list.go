package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

var statuses = []plane.Status{
	plane.StatusPending, plane.StatusStreaming, plane.StatusComplete,
	plane.StatusCancelled, plane.StatusError, plane.StatusInterrupted,
}

// CheckQuery reports a status that there is none of.
func CheckQuery(q store.Query) error {
	if q.Status != "" && !slices.Contains(statuses, q.Status) {
		return fmt.Errorf("list streams: no status is called %q", q.Status)
	}
	return nil
}

// MostOf is how many streams the list that q asks for may hold.
func MostOf(q store.Query) int {
	if q.Limit <= 0 {
		return store.DefaultList
	}
	return min(q.Limit, store.MaxList)
}

// Where is the query, which it checks, as the end of a SELECT from the table
// streams, whose parameters are named by mark ("$" or "?") and a number. The
// prefix is a range of the primary key. The status is written out: with a
// parameter a database could not tell that its index of the rows that are not
// complete will do; they are few, where the complete ones are found at once.
func Where(q store.Query, mark string) (sql string, args []any, err error) {
	if err := CheckQuery(q); err != nil {
		return "", nil, err
	}
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
	if end := Successor(q.Prefix); end != "" {
		add("id < ", end)
	}
	args = append(args, MostOf(q))
	return " WHERE " + strings.Join(terms, " AND ") + " ORDER BY id LIMIT " + mark + strconv.Itoa(len(args)), args, nil
}

// Successor is the least text above all that begin with prefix, in the order of
// bytes; "" if there is none.
func Successor(prefix string) string {
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
