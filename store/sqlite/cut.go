package sqlite

import (
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// cut ends a stream where its text has a hole: interrupted, with an error that says
// so. Chunks from beyond stay. The row was looked at in the same write.
func (s statements) cut(id string, row plane.Row, hole *plane.HoleError) error {
	text, err := s.whole(id, hole.At)
	if err != nil {
		return err
	}
	marks, err := encodeMarks(text)
	if err != nil {
		return err
	}
	why := rows.Missing(hole, row.Seq)
	if _, err = s.exec(cutSQL, id, text, marks, hole.At, why, now()); err == nil {
		_, err = s.exec(cutOffSQL, id, hole.At)
	}
	return err
}
