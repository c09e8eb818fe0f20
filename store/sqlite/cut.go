package sqlite

import (
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/internal/rows"
)

// cut ends a stream where its text has a hole: interrupted, with an error that says
// so. Chunks from beyond stay. The row was looked at in the same write.
func (s statements) cut(seal plane.Seal, row plane.Row, hole *plane.HoleError) error {
	text, err := s.whole(seal.ID, hole.At)
	if err != nil {
		return err
	}
	marks, err := encodeMarks(text)
	if err != nil {
		return err
	}
	why := rows.Missing(hole, row.Seq)
	if _, err = s.exec(cutSQL, seal.ID, text, marks, hole.At, why, now(), rows.Meta(seal.Meta)); err == nil {
		_, err = s.exec(cutOffSQL, seal.ID, hole.At)
	}
	return err
}
