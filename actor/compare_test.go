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

	"rillkeep.dev/rillkeep/plane"
)

// compare reports where what a script brought about differs from what was
// recorded.
func (s *script) compare(want expectation) {
	s.t.Helper()
	compareSteps(s.t, want.Steps, s.steps)
	s.compareSubs(want.Subs)
	if !s.callbackMode() {
		diff(s.t, "rows", want.Rows, s.store.rows())
		diff(s.t, "durable text", want.DurableText, s.store.texts())
	}
	diff(s.t, "calls that never came back", want.Pending, s.unsettled())
	diff(s.t, "pumps", want.Pumps, s.pumps)
	diff(s.t, "reports of failed rounds", want.CheckpointErrors, s.reports())
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
	diff(s.t, "what readers got", s.local(want), s.local(s.seen()))
}

// takenOrNot are the vectors whose chunks are not compared, and why.
var takenOrNot = map[string]string{
	"seal/row-deleted-before-checkpoint": "the first round ends the stream, and its reader may not have come to the chunk by then",
}

// local are the readers that came to the node that hosts the stream, each in
// the form in which it can be compared. The others need the relay.
func (s *script) local(subs map[string]subscription) map[string]merge {
	out := map[string]merge{}
	for name, sub := range subs {
		m := merged(sub)
		if takenOrNot[s.vector.Name] != "" {
			m.Frames = slices.DeleteFunc(m.Frames, func(f frame) bool { return f.Type == "chunk" })
		}
		out[name] = m
	}
	for _, o := range s.vector.Ops {
		if o.Op == "subscribe" && o.Plane == "B" && len(s.node(o.Plane).cfg.Relay) > 0 {
			delete(out, o.As)
		}
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
	case "store":
		return faults[r.Fault] != nil && errors.Is(err, faults[r.Fault])
	case "ended-short":
		return errors.As(err, &short) && short.Durable == *r.Durable && short.Produced == *r.Produced
	case "confirmed-short":
		return errors.As(err, &short) && short.Durable == *r.Confirmed && strings.Contains(err.Error(), "confirmed")
	}
	return false
}
