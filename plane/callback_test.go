package plane_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/storetest"
)

// application is one that persists for itself, and answers as told.
type application struct {
	mu      sync.Mutex
	changes []plane.Change
	answer  func(plane.Change) (plane.Answer, error) // nil confirms all
	latency time.Duration
}

func (a *application) commit(ctx context.Context, change plane.Change) (plane.Answer, error) {
	if _, ok := ctx.Deadline(); !ok {
		return plane.Answer{}, errors.New("a commit without a deadline")
	}
	time.Sleep(a.latency)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = append(a.changes, change)
	if a.answer == nil {
		return plane.Answer{}, nil
	}
	return a.answer(change)
}

// newCallback is a scene in callback mode that retains so many durable units.
func newCallback(t *testing.T, retain int64, change func(*application, *plane.Config)) (*scene, *application) {
	t.Helper()
	app := &application{}
	s := newScene(t, func(_ *scene, c *plane.Config) {
		c.Store, c.Commit, c.Retain = nil, app.commit, &retain
		if change != nil {
			change(app, c)
		}
	})
	return s, app
}

func seqOf(n int64) plane.Answer { return plane.Answer{Seq: &n} }

func TestWhatIsNotOneOfTheTwoModesIsRefused(t *testing.T) {
	app := &application{}
	retain, negative := int64(1), int64(-1)
	for name, cfg := range map[string]plane.Config{
		"neither":                   {},
		"both":                      {Store: storetest.NewMemory(), Commit: app.commit},
		"a retained size of tables": {Store: storetest.NewMemory(), Retain: &retain},
		"a negative retained size":  {Commit: app.commit, Retain: &negative},
	} {
		if err := cfg.Validate(); !errors.Is(err, plane.ErrConfig) {
			t.Errorf("%s: answered %v", name, err)
		}
	}
}

func TestAnApplicationIsGivenChangesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &application{}
		began := time.Now()
		s, err := plane.Open(t.Context(), plane.Config{Commit: app.commit}, plane.Claim{
			ID: "m1", Node: "n/1", Meta: json.RawMessage(`{"chat":"c1"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		push := func(text string) {
			if err := s.Push(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		push("0123456789")
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		push("ab")
		time.Sleep(time.Second)
		push("tail")
		if _, err := s.Fail(t.Context(), "boom"); err != nil {
			t.Fatal(err)
		}
		want := []plane.Change{
			{Kind: plane.ChangeOpen, StreamID: "m1", Meta: json.RawMessage(`{"chat":"c1"}`), Node: "n/1", Started: began},
			{Kind: plane.ChangeAppend, StreamID: "m1", From: 0, Seq: 10, Text: "0123456789"},
			{Kind: plane.ChangeAppend, StreamID: "m1", From: 10, Seq: 12, Text: "ab"},
			{Kind: plane.ChangeClose, StreamID: "m1", From: 12, Seq: 16, Body: "0123456789abtail", Status: plane.StatusError, Error: "boom", HasError: true},
		}
		if d := cmp.Diff(want, app.changes); d != "" {
			t.Errorf("changes differ (-want +got):\n%s", d)
		}
	})
}

func TestAnApplicationThatFailsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("application is down")
		fails := 2
		s, app := newCallback(t, 0, func(a *application, _ *plane.Config) {
			a.answer = func(plane.Change) (plane.Answer, error) {
				if fails > 0 {
					fails--
					return plane.Answer{}, down
				}
				return plane.Answer{}, nil
			}
		})
		if len(app.changes) != 3 {
			t.Errorf("%d opens", len(app.changes))
		}
		if d := cmp.Diff(app.changes[0], app.changes[2]); d != "" {
			t.Errorf("a repeat is no repeat (-first +last):\n%s", d)
		}
		fails = 3
		s.push("abc")
		s.after(750*time.Millisecond + 350*time.Millisecond)
		if st := s.State(); st.Durable != 3 {
			t.Errorf("%d durable", st.Durable)
		}
	})
}

// Nothing can be read back: after a failure the next slice begins at what was
// confirmed, and may repeat what the application has.
func TestAfterALostAnswerAnApplicationIsGivenTheSameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("answer was lost")
		fail := true
		s, app := newCallback(t, 0, func(a *application, c *plane.Config) {
			c.Policy.Retries = 0
			a.answer = func(c plane.Change) (plane.Answer, error) {
				if c.Kind == plane.ChangeAppend && fail {
					return plane.Answer{}, lost
				}
				return plane.Answer{}, nil
			}
		})
		s.push("0123456789")
		wantAnswer(t, "flush", s.flushed(), lost)
		if st := s.State(); st.Durable != 0 {
			t.Errorf("%d durable", st.Durable)
		}
		fail = false
		s.push("ab")
		s.after(750 * time.Millisecond)
		last := app.changes[len(app.changes)-1]
		if last.From != 0 || last.Seq != 12 || last.Text != "0123456789ab" {
			t.Errorf("the next change is %+v", last)
		}
	})
}

func TestWhatAnApplicationConfirms(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []plane.Answer // to appends of "0123😀"
		durable int64          // after a flush of it
		err     error
		next    int64 // where the next append begins
	}{
		"all":                        {[]plane.Answer{{}}, 6, nil, 6},
		"all, by its length":         {[]plane.Answer{seqOf(6)}, 6, nil, 6},
		"less":                       {[]plane.Answer{seqOf(3)}, 3, plane.ErrShort, 3},
		"half a pair":                {[]plane.Answer{seqOf(5)}, 4, plane.ErrShort, 4},
		"nothing":                    {[]plane.Answer{seqOf(0)}, 0, plane.ErrShort, 0},
		"less than nothing":          {[]plane.Answer{seqOf(-1)}, 0, plane.ErrShort, 0},
		"more than there is":         {[]plane.Answer{seqOf(99)}, 0, plane.ErrShort, 0},
		"less, and then all of that": {[]plane.Answer{seqOf(3), {}}, 6, nil, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retries := len(tt.answers) - 1
				s, app := newCallback(t, 1000, func(a *application, c *plane.Config) {
					c.Policy.Retries = retries
					a.answer = func(c plane.Change) (answer plane.Answer, err error) {
						if c.Kind == plane.ChangeAppend && len(tt.answers) > 0 {
							answer, tt.answers = tt.answers[0], tt.answers[1:]
						}
						return answer, nil
					}
				})
				c := s.Join(0)
				defer c.Close()
				s.push("0123😀")
				flush := s.flushed()
				s.after(time.Duration(retries) * 50 * time.Millisecond)
				wantAnswer(t, "flush", flush, tt.err)
				if st := s.State(); st.Durable != tt.durable {
					t.Errorf("%d durable, want %d", st.Durable, tt.durable)
				}
				if got := take(c); got.durable != tt.durable {
					t.Errorf("a reader was told of %d durable", got.durable)
				}
				s.push("x")
				wantAnswer(t, "flush", s.flushed(), nil)
				last := app.changes[len(app.changes)-1]
				if last.From != tt.next || last.Seq != 7 || last.Text != s.join(tt.next).text {
					t.Errorf("the next change is %+v, want it from %d", last, tt.next)
				}
			})
		})
	}
}

func TestAnApplicationAsksForACancel(t *testing.T) {
	for _, kind := range []plane.ChangeKind{plane.ChangeOpen, plane.ChangeAppend} {
		t.Run("in answer to "+string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, app := newCallback(t, 0, func(a *application, _ *plane.Config) {
					a.answer = func(c plane.Change) (plane.Answer, error) {
						return plane.Answer{CancelRequested: c.Kind == kind}, nil
					}
				})
				s.push("abc")
				wantAnswer(t, "flush", s.flushed(), nil)
				if !s.IsCancelled() {
					t.Error("not seen")
				}
				if end, err := s.Close(s.ctx); err != nil || end.Status != plane.StatusCancelled {
					t.Errorf("close answered %+v, %v", end, err)
				}
				if last := app.changes[len(app.changes)-1]; last.Status != plane.StatusCancelled {
					t.Errorf("the last change is %+v", last)
				}
			})
		})
	}
}

func TestDurableTextBelowTheRetainedIsGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		retain, floor int64
	}{
		"all of it":        {0, 18},
		"but for the last": {4, 14},
		"inside a pair":    {1, 16}, // kept whole
		"none of it":       {100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, app := newCallback(t, tt.retain, nil)
				s.push("0123456789abcdef😀")
				wantAnswer(t, "flush", s.flushed(), nil)
				s.push("XYZ")
				for from := int64(0); from <= 21; from++ {
					got := s.join(from)
					at := from
					if from == 17 {
						at = 16 // the pair's start
					}
					switch {
					case from < tt.floor && (len(got.frames) != 1 || got.last.Kind != plane.KindStale || got.last.FloorSeq != tt.floor || got.last.DurableSeq != 18):
						t.Errorf("from %d, below the floor: got %+v", from, got.frames)
					case from >= tt.floor && (got.from != at || got.from+plane.Units(got.text) != 21):
						t.Errorf("from %d: got %q at %d", from, got.text, got.from)
					}
				}
				if text, from, _ := s.Snapshot(); from != tt.floor || from+plane.Units(text) != 21 {
					t.Errorf("kept %q from %d", text, from)
				}
				if text, from, st := s.Snapshot(); from != tt.floor || from+plane.Units(text) != 21 || st.Seq != 21 {
					t.Errorf("kept %q from %d of %d", text, from, st.Seq)
				}
				if _, err := s.Close(s.ctx); err != nil {
					t.Fatal(err)
				}
				last := app.changes[len(app.changes)-1]
				if last.BodyFrom != tt.floor || last.BodyFrom+plane.Units(last.Body) != last.Seq || last.Seq != 21 || last.From != 18 ||
					!strings.HasSuffix(last.Body, "XYZ") {
					t.Errorf("the last change is %+v", last)
				}
			})
		})
	}
}

func TestATextIsNotGivenUpBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, app := newCallback(t, 0, nil)
		app.latency = 10 * time.Millisecond
		s.push(strings.Repeat("x", 512))
		s.after(5 * time.Millisecond)
		s.push(strings.Repeat("y", 512))
		s.after(5 * time.Millisecond)
		if got := s.join(512); got.text != strings.Repeat("y", 512) {
			t.Errorf("got %+v", got.last)
		}
		if got := s.join(511); got.last.Kind != plane.KindStale || got.last.FloorSeq != 512 {
			t.Errorf("below the floor: got %+v", got.last)
		}
		s.after(10 * time.Millisecond)
		if last := app.changes[len(app.changes)-1]; last.Text != strings.Repeat("y", 512) {
			t.Errorf("the last change is %d..%d", last.From, last.Seq)
		}
	})
}

func TestAReaderThatTheFloorPassesIsSentToTheDurablePlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCallback(t, 100, nil)
		slow := s.Join(0)
		defer slow.Close()
		if f, ok, _ := slow.Poll(); !ok || f.Kind != plane.KindOpen {
			t.Fatalf("polled %+v", f)
		}
		s.push(strings.Repeat("x", 512))
		synctest.Wait()
		if got := take(slow); got.text != "" || got.last.Kind != plane.KindStale || got.last.FloorSeq != 412 || got.last.DurableSeq != 512 {
			t.Errorf("got %+v", got.frames)
		}
		if n := s.State().Readers; n != 0 {
			t.Errorf("%d readers are left", n)
		}
	})
}

// What was handed out stays as it was when the memory behind it is given up.
func TestAChunkOutlivesTheTextItWasCutFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCallback(t, 1000, nil)
		c := s.Join(0)
		defer c.Close()
		var got []plane.Frame
		for i := range 200 {
			s.push(strings.Repeat(string(rune('a'+i%26)), 600))
			got = append(got, take(c).frames...)
			synctest.Wait()
		}
		var text strings.Builder
		for _, f := range got {
			text.WriteString(f.Text)
		}
		if text.String() != s.pushed {
			t.Errorf("got %d units of %d, or others", text.Len(), len(s.pushed))
		}
	})
}

func TestACloseThatIsConfirmedInPartIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newCallback(t, 0, func(a *application, _ *plane.Config) {
			a.answer = func(c plane.Change) (plane.Answer, error) {
				if c.Kind == plane.ChangeClose {
					return seqOf(2), nil
				}
				return plane.Answer{}, nil
			}
		})
		c := s.Join(0)
		defer c.Close()
		s.push("abc")
		if end, err := s.Close(s.ctx); !errors.Is(err, plane.ErrShort) || end.Status != plane.StatusInterrupted {
			t.Errorf("close answered %+v, %v", end, err)
		}
		if got := take(c); got.last.Status != plane.StatusInterrupted || got.last.Seq != 0 {
			t.Errorf("a reader was told %+v", got.last)
		}
	})
}
