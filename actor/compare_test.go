package actor_test

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// compare reports where what a script brought about differs from what was
// recorded.
func (s *script) compare(want expectation) {
	s.t.Helper()
	compareSteps(s.t, s.hosted(want.Steps), s.steps)
	s.compareSubs(want.Subs)
	if !s.callbackMode() {
		diff(s.t, "rows", want.Rows, s.store.rows())
		diff(s.t, "durable text", want.DurableText, s.store.texts())
	}
	diff(s.t, "calls that never came back", want.Pending, s.unsettled())
	diff(s.t, "pumps", want.Pumps, s.pumps)
	diff(s.t, "reports of failed rounds", want.CheckpointErrors, s.reports())
	s.compareRelay(want)
}

// compareRelay compares what the relay was asked for and given.
func (s *script) compareRelay(want expectation) {
	s.t.Helper()
	r := s.relay
	used := r.used()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.compareAttaches(want.Attaches, r.attaches)
	for name, u := range used {
		if u != want.Sources[name] {
			s.t.Errorf("source %s was used like %+v, want %+v", name, u, want.Sources[name])
		}
	}
	if want.Published != nil {
		diff(s.t, "published", joined(*want.Published), joined(r.published))
	}
	if len(r.complaints) != len(want.RelayErrors) {
		s.t.Errorf("the relay's failures are %v, want %+v", r.complaints, want.RelayErrors)
		return
	}
	for i, got := range r.complaints {
		w := want.RelayErrors[i]
		if string(got.Phase) != w.Phase || !w.Err.matches(got.Err) || r.complained[i] != w.T {
			s.t.Errorf("failure of the relay at %d is %+v, want %+v", r.complained[i], got, w)
		}
	}
}

// compareAttaches compares them: all readers that a node has of a stream at a time
// share one.
func (s *script) compareAttaches(want, got []attached) {
	s.t.Helper()
	rest := want
	for _, a := range got {
		i := slices.Index(rest, a)
		if i < 0 || len(rest) == len(want) && i > 0 {
			s.t.Errorf("attaches are %+v, want some of %+v in their order, the first among them", got, want)
			return
		}
		rest = rest[i+1:]
	}
	if len(got) == 0 && len(want) > 0 {
		s.t.Errorf("nothing was attached, want %+v", want)
	}
}

// isRemote reports whether a reader came to a node that attaches what it reads.
func (s *script) isRemote(name string) bool {
	for _, o := range s.vector.Ops {
		if o.Op == "subscribe" && o.As == name {
			return s.node(o.Plane).cfg.Relay.Attach != ""
		}
	}
	return false
}

// joined are published frames in the form in which they can be compared: adjacent
// chunks joined, and of durable marks in a row only the newest.
func joined(all []published) (out []published) {
	for _, p := range all {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Stream != p.Stream || out[last].Frame.Type != p.Frame.Type:
			out = append(out, p)
		case p.Frame.Type == "chunk" && out[last].Frame.Seq == p.Frame.From:
			out[last].Frame.Seq = p.Frame.Seq
			out[last].Frame.Text += p.Frame.Text
		case p.Frame.Type == "durable":
			out[last] = p
		default:
			out = append(out, p)
		}
	}
	return out
}

// reports are the rounds that were reported as failed.
func (s *script) reports() (all []report) {
	for _, c := range s.failed {
		all = append(all, report{c.From, c.Seq})
	}
	return all
}

func (s *script) callbackMode() bool { return s.nodes["A"].cfg.Mode == "commit" }

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := gocmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

// hosted leaves out of recorded steps when readers of what is attached were
// answered: ours are with the first frame of their source, which bounds the wait for
// an owner that hangs. What they were answered counts, of both.
func (s *script) hosted(want []step) (steps []step) {
	s.t.Helper()
	at := map[string]int{}
	for op, st := range s.steps {
		st.Settled = slices.DeleteFunc(st.Settled, func(o outcome) bool {
			if o.OK && s.isRemote(o.ID) {
				at[o.ID] = op
				return true
			}
			return false
		})
	}
	for _, st := range want {
		st.Settled = slices.DeleteFunc(slices.Clone(st.Settled), func(o outcome) bool {
			if !o.OK || !s.isRemote(o.ID) {
				return false
			}
			if op, ok := at[o.ID]; !ok || op < st.Op {
				s.t.Errorf("%s was answered at op %d, want %d or later", o.ID, op, st.Op)
			}
			return true
		})
		steps = append(steps, st)
	}
	return steps
}

func compareSteps(t *testing.T, want []step, got map[int]*step) {
	t.Helper()
	wanted := map[int]step{}
	for _, w := range want {
		wanted[w.Op] = w
	}
	ops := slices.Sorted(maps.Keys(got))
	for op := range wanted {
		if got[op] == nil {
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		g := got[op]
		if g == nil {
			g = &step{}
		}
		compareStep(t, op, wanted[op], *g)
	}
}

func compareStep(t *testing.T, op int, want, got step) {
	t.Helper()
	if d := gocmp.Diff(want.Store, got.Store, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("op %d: store differs (-want +got):\n%s", op, d)
	}
	if len(want.Threw) != len(got.threw) {
		t.Errorf("op %d: pushes answered %v, want %+v", op, got.threw, want.Threw)
	} else {
		for i, err := range got.threw {
			if !want.Threw[i].matches(err) {
				t.Errorf("op %d: push answered %v, want %+v", op, err, want.Threw[i])
			}
		}
	}
	byID := func(a, b outcome) int { return cmp.Compare(a.ID, b.ID) }
	w, g := slices.SortedFunc(slices.Values(want.Settled), byID), slices.SortedFunc(slices.Values(got.Settled), byID)
	name := func(o outcome) string { return o.ID }
	if d := gocmp.Diff(names(w, name), names(g, name), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("op %d: other calls came back (-want +got):\n%s", op, d)
		return
	}
	for i := range w {
		switch {
		case w[i].OK != g[i].OK, !w[i].OK && !w[i].Err.matches(g[i].err):
			t.Errorf("op %d: %s answered %v, want ok=%v %+v", op, w[i].ID, g[i].err, w[i].OK, w[i].Err)
		case w[i].OK && w[i].Value != nil && !gocmp.Equal(w[i].Value, g[i].Value):
			t.Errorf("op %d: %s answered %d, want %d", op, w[i].ID, *g[i].Value, *w[i].Value)
		}
	}
}

func names[T any](list []T, name func(T) string) []string {
	var out []string
	for _, v := range list {
		out = append(out, name(v))
	}
	return out
}

// compareSubs compares what each reader got.
func (s *script) compareSubs(want map[string]subscription) {
	s.t.Helper()
	w, g := s.comparable(want), s.comparable(s.seen())
	for name, m := range w {
		if s.isRemote(name) && !slices.ContainsFunc(want[name].Frames, func(f frame) bool { return f.Type == "durable" }) {
			m.Durable = 0 // what the open said was made up
			w[name] = m
		}
	}
	for name, m := range g {
		if !s.isRemote(name) {
			continue
		}
		if m.Durable < w[name].Durable { // it may be more: the open of what is attached already says it
			s.t.Errorf("%s was told %d durable, want %d", name, m.Durable, w[name].Durable)
		}
		m.Durable = w[name].Durable
		g[name] = m
	}
	diff(s.t, "what readers got", w, g)
}

// takenOrNot are the vectors whose chunks are not compared, and why.
var takenOrNot = map[string]string{
	"seal/row-deleted-before-checkpoint": "the first round ends the stream, and its reader may not have come to the chunk by then",
}

// comparable are the readers, each in the form in which it can be compared.
func (s *script) comparable(subs map[string]subscription) map[string]merge {
	out := map[string]merge{}
	for name, sub := range subs {
		m := merged(sub)
		if s.isRemote(name) {
			m.asOfMirror()
		}
		if takenOrNot[s.vector.Name] != "" {
			m.Frames = slices.DeleteFunc(m.Frames, func(f frame) bool { return f.Type == "chunk" })
		}
		out[name] = m
	}
	return out
}

// merge is a subscription in the form in which two of them can be compared:
// adjacent chunks joined, and of the durable marks only the newest. (A reader
// is a cursor: what it was late for comes merged.)
type merge struct {
	Frames  []frame
	Durable int64
	Done    bool
}

func merged(sub subscription) merge {
	m := merge{Done: sub.Done}
	for _, f := range sub.Frames {
		last := len(m.Frames) - 1
		switch {
		case f.Type == "durable":
			m.Durable = f.Seq
		case f.Type == "chunk" && last >= 0 && m.Frames[last].Type == "chunk" && m.Frames[last].Seq == f.From:
			m.Frames[last].Seq = f.Seq
			m.Frames[last].Text += f.Text
		default:
			m.Frames = append(m.Frames, f)
		}
	}
	return m
}

// asOfMirror leaves out what depends on how much a mirror knows when its reader
// joins; its text begins exactly where the reader does.
func (m *merge) asOfMirror() {
	if len(m.Frames) == 0 || m.Frames[0].Type != "open" {
		return
	}
	open := &m.Frames[0]
	if m.Durable == 0 {
		m.Durable = open.DurableSeq
	}
	open.Seq, open.DurableSeq, open.Ended = 0, 0, false
	if len(m.Frames) > 1 && m.Frames[1].Type == "chunk" && m.Frames[1].From < open.From {
		chunk := &m.Frames[1]
		chunk.Text = vectorText(plane.Skip(string(chunk.Text), open.From-chunk.From))
		chunk.From = open.From
	}
}

var refusals = map[string]error{
	"no-row":              plane.ErrNotFound,
	"length-not-a-number": plane.ErrNullLength,
	"advanced":            plane.ErrExists,
	"streaming":           plane.ErrHeld,
	"lost-race":           plane.ErrLostRace,
}

// matches reports whether err says what was recorded.
func (r *refusal) matches(err error) bool {
	if r == nil {
		return false
	}
	var short *plane.ShortError
	switch r.Code {
	case "closed":
		return errors.Is(err, plane.ErrClosed)
	case "not-open":
		return errors.Is(err, errNotOpen)
	case "open-here":
		return errors.Is(err, plane.ErrOpenHere)
	case "forbidden":
		return errors.Is(err, plane.ErrDenied)
	case "row-gone":
		return errors.Is(err, plane.ErrNotFound)
	case "refused":
		return refusals[r.Why] != nil && errors.Is(err, refusals[r.Why])
	case "attach-timeout":
		return errors.Is(err, actor.ErrAttachTimeout)
	case "type-error":
		return errors.Is(err, plane.BrokenFrame)
	case "chunk-gap":
		return errors.Is(err, plane.ChunkGap)
	case "store":
		return faults[r.Fault] != nil && errors.Is(err, faults[r.Fault])
	case "ended-short":
		return errors.As(err, &short) && short.Durable == *r.Durable && short.Produced == *r.Produced
	case "confirmed-short":
		return errors.As(err, &short) && short.Durable == *r.Confirmed && strings.Contains(err.Error(), "confirmed")
	}
	return false
}
