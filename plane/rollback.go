package plane

import "fmt"

// A store can go back behind what it had confirmed: a PostgreSQL whose standby
// lagged, and took over, has lost the last commits. How much a confirmation is
// worth is the database's to say (synchronous replication); a stream notices, and
// makes what it can of it.

// wentBack says whether a row shows that the store went back. other says that it
// is not ours now. The rows of tables without tokens show nothing: a length that
// fell may as well be that of somebody who opened the stream anew. s.mu is held.
func (s *Stream) wentBack(row Row, other bool) error {
	switch {
	case s.token == "" || row.Token == "":
		return nil
	case !other && row.Seq < s.durable:
		return fmt.Errorf("%w: the row is at %d, and had %d", ErrWentBack, row.Seq, s.durable)
	case row.Token != s.token && row.Epoch < s.epoch:
		return fmt.Errorf("%w: %w: the row is %s at %d under token %q, and had %q", ErrFenced, ErrWentBack,
			row.Status, row.Seq, row.Token, s.token)
	}
	return nil
}

// goBack takes over where the store is. What it has is still the beginning of the
// text: the rounds that follow commit the rest again, from memory. Where that has
// been trimmed the stream ends. Readers that were told of more keep what they were
// told; State, flushes and whoever joins hear what is so. s.mu is held.
func (s *Stream) goBack(row Row) {
	s.tried = append(s.tried, s.durable)
	s.durable, s.mark = row.Seq, row.Seq
	s.failed++ // no hurry: a store that does so twice does it again
	if row.Seq < s.floor && s.ending == nil && s.over == nil {
		s.beginSeal(Ending{Status: StatusInterrupted})
		s.over = fmt.Errorf("%w: %w", ErrClosed, ErrWentBack)
	}
}
