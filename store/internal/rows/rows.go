// Package rows is what the databases of package store have in common: how a
// claim is judged, a text put together from its pieces, a list selected, a row
// read and a store closed.
package rows

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"rillkeep.dev/rillkeep/plane"
)

const (
	// Columns are a plane.Row, as Scan reads it.
	Columns = `seq, status, cancel, coalesce(host, ''), epoch, coalesce(error, '')`

	// Claimed are Columns and the producer.
	Claimed = Columns + `, coalesce(producer, '')`

	// StreamColumns are a store.Stream. Scan reads those of its Row.
	StreamColumns = `id, ` + Columns + `, error IS NOT NULL, coalesce(producer, ''), meta, created_at, updated_at, ended_at`
)

// Scanner is a row that a query found, or did not find.
type Scanner interface{ Scan(dest ...any) error }

// Scan reads Columns into row, and into before (nil for nothing) and after what
// stands before and after them. plane.ErrNotFound if the query found no row.
func Scan(from Scanner, row *plane.Row, before any, after ...any) error {
	dest := make([]any, 0, 16)
	if before != nil {
		dest = append(dest, before)
	}
	dest = append(dest, &row.Seq, &row.Status, &row.Cancel, &row.Token, &row.Epoch, &row.Error)
	err := from.Scan(append(dest, after...)...)
	if errors.Is(err, sql.ErrNoRows) { // pgx's, too
		return plane.ErrNotFound
	}
	return err
}

// CheckLength reports an error unless text is as long as its offsets say. A row
// whose length is not its text's could never be read again.
func CheckLength(from, seq int64, text string) error {
	if n := plane.Units(text); from < 0 || n != seq-from {
		return fmt.Errorf("text of %d units does not span %d to %d", n, from, seq)
	}
	return nil
}

// Meta is what is stored for an application's meta: NULL for none.
func Meta(meta json.RawMessage) *string {
	if meta == nil {
		return nil
	}
	return new(string(meta))
}
