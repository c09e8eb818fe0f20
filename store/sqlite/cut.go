package sqlite

import (
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// cut ends a stream where its text has a hole: interrupted, with an error that says
// so. Chunks from beyond stay.
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
	if _, err = s.seal.Exec(id, row.Token, text, marks, hole.At, string(plane.StatusInterrupted), why, now()); err == nil {
		_, err = s.cutOff.Exec(id, hole.At)
	}
	return err
}
