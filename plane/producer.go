package plane

import (
	"encoding/json"
	"time"
)

// producing is what a stream knows of its producer.
type producing struct {
	name    string
	session int64         // of the current one, from 1; 0 is not known
	attempt Attempt       // by which that began, if it is known
	resumed chan struct{} // closed at the next resume; nil while no pump waits for that

	heard int64 // tick of Config.Clock at which it was heard of last
	holds int32 // producers that are connected

	unnamed bool // the stream was adopted, and its store has no name: it is the next one's
}

// Attempt is one of the calls by which a run of a producer becomes a stream's: they are
// counted, so that one that was given up, and arrives when a later one has been
// answered, fences nobody. The zero Attempt is not known.
type Attempt struct {
	Instance string // the run's, which nobody else has
	Count    int64
}

// after reports whether a may follow b: it is another run's, or a later one.
func (a Attempt) after(b Attempt) bool {
	return a.Instance == "" || a.Instance != b.Instance || a.Count > b.Count
}

// ProducerEpoch returns that of the current producer. Its session is 0 where the
// stream was adopted and the one before is not known: then the first who names one
// is believed.
func (s *Stream) ProducerEpoch() ProducerEpoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ProducerEpoch{s.epoch, s.by.session}
}

// Resume makes the caller the stream's producer, who goes on where the text that
// was received ends (State), and fences those before: their pumps, pushes that wait
// and what they ask for from now on end with ErrSuperseded. It is refused with
// ErrHeld where the stream was opened, or taken over, under another name than
// producer, and as a push is.
func (s *Stream) Resume(producer string) (ProducerEpoch, error) {
	return s.ResumeBy(producer, Attempt{})
}

// ResumeBy is Resume by an attempt: ErrSuperseded if a later one of the same run came
// before it.
func (s *Stream) ResumeBy(producer string, attempt Attempt) (ProducerEpoch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch err := s.refusal(); {
	case err != nil:
		return ProducerEpoch{}, err
	case !attempt.after(s.by.attempt):
		return ProducerEpoch{}, ErrSuperseded
	case producer != s.by.name && !s.by.unnamed:
		return ProducerEpoch{}, ErrHeld
	}
	s.by.name, s.by.unnamed = producer, false
	if s.by.session == 0 {
		s.by.session = time.Now().UnixMicro() // later than any that was counted
	}
	s.by.session++
	s.by.attempt = attempt
	if s.by.resumed != nil {
		close(s.by.resumed)
		s.by.resumed = nil
	}
	s.wakePushes()
	s.in.held = s.in.held[:3*s.in.units()] // the bytes of a character that was cut come again
	s.hear()
	return ProducerEpoch{s.epoch, s.by.session}, nil
}

// BegunBy says by which attempt the stream was opened, or taken over.
func (s *Stream) BegunBy(attempt Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by.attempt == (Attempt{}) {
		s.by.attempt = attempt
	}
}

// KeepAlive says that the stream's producer is there, and has nothing to say yet. It
// is refused as a push is, and with ErrCancelled once the stream was asked to stop.
func (s *Stream) KeepAlive(as ProducerEpoch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusalOf(as); err != nil {
		return err
	}
	if s.IsCancelled() {
		return ErrCancelled
	}
	s.hear()
	return nil
}

// Hold says that a producer is connected until release is called, once: meanwhile
// the stream is not sealed for want of one.
func (s *Stream) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by.holds++
	return s.release
}

// release ends a hold.
func (s *Stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by.holds--
	s.hear()
}

// connect is Hold for a producer that is told when another has resumed the stream.
func (s *Stream) connect(as ProducerEpoch) (resumed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fence(as); err != nil {
		return nil, err
	}
	s.by.holds++
	if as == (ProducerEpoch{}) {
		return nil, nil
	}
	if s.by.resumed == nil {
		s.by.resumed = make(chan struct{})
	}
	return s.by.resumed, nil
}

// fence says whether as may not act on the stream any more, or not yet. s.mu is
// held.
func (s *Stream) fence(as ProducerEpoch) error {
	if as == (ProducerEpoch{}) {
		return nil
	}
	if s.by.session == 0 && as.Epoch == s.epoch {
		s.by.session = as.Session
	}
	switch now := (ProducerEpoch{s.epoch, s.by.session}); {
	case as == now:
		return nil
	case as.Before(now):
		return ErrSuperseded
	default:
		return ErrProducerEpoch
	}
}

// refusalOf is why nothing is taken of a producer; nil if it is. The fence comes
// first: a stream that is over because it is another node's says nothing of a
// producer that is the other's. s.mu is held.
func (s *Stream) refusalOf(as ProducerEpoch) error {
	if err := s.fence(as); err != nil {
		return err
	}
	return s.refusal()
}

// wakePushes has the pushes that wait for room look whether there is any, or are
// refused. s.mu is held.
func (s *Stream) wakePushes() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// SetMeta makes meta the application's data of the row when the stream is sealed,
// in place of what was claimed with. It is kept in memory until then, and does not
// go along where the stream is handed over. The caller does not change it any more.
func (s *Stream) SetMeta(meta json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = &meta
}
