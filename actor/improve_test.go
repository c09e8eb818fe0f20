package actor_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// improvements are the vectors whose behaviour is not wanted, each with a check
// of what is. The script has been played when the check runs.
var improvements = map[string]func(*testing.T, *script){
	"checkpoint/row-moved-ahead-by-another-writer": func(t *testing.T, s *script) {
		s.wantThrew(5, plane.ErrFenced)
		s.wantErr("f", plane.ErrFenced)
		s.wantErr("end", plane.ErrFenced)
		s.wantStored("m1", 6, "streaming", "abcd")
	},
	"open/no-host-simultaneous-both-pass": func(t *testing.T, s *script) {
		s.wantErr("a", nil)
		if err := s.outcome("b").err; !errors.Is(err, plane.ErrLostRace) && !errors.Is(err, plane.ErrHeld) {
			t.Errorf("second open answered %v", err)
		}
		s.wantErr("ca", nil)
		s.wantStored("m1", 4, "complete", "AAAA")
	},
	"open/drained-while-the-probe-runs": func(t *testing.T, s *script) {
		s.wantErr("s", plane.ErrDraining)
		s.wantErr("d", nil)
		s.wantStored("m1", 0, "interrupted", "")
	},
	"open/drain-of-a-refused-open-wipes-the-owner": func(t *testing.T, s *script) {
		s.wantErr("b", plane.ErrHeld)
		s.wantErr("d", nil)
		s.wantErr("f", nil)
		s.wantStored("m1", 12, "streaming", "abcdefghijkl")
	},
	"open/host-cas-null-status": func(t *testing.T, s *script) {
		s.wantErr("s", nil)
		s.wantStored("m1", 0, "streaming", "")
	},
	"seal/failed-close-still-ends-readers": func(t *testing.T, s *script) {
		end := frame{Type: "end", Seq: 10, Status: "interrupted"}
		s.wantReader("r", "0123456789tail", end)
		s.wantReader("r2", "0123456789tail", end)
		for _, call := range []string{"end", "late", "again"} {
			s.wantErr(call, plane.ErrShort)
		}
		s.wantThrew(9, plane.ErrClosed)
		s.wantStored("m1", 10, "streaming", "0123456789")
	},
	"seal/drain-hides-failure": func(t *testing.T, s *script) {
		s.wantErr("d", plane.ErrShort)
		if err := s.outcome("d").err; !strings.Contains(err.Error(), "m1") {
			t.Errorf("drain answered %v, want the stream's name in it", err)
		}
	},
	"seal/zombie-close-overwrites-sweeper": func(t *testing.T, s *script) {
		s.wantErr("end", plane.ErrFenced)
		s.wantStored("m1", 3, "interrupted", "abc")
	},
	"seal/zombie-append-after-sweep": func(t *testing.T, s *script) {
		s.wantStored("m1", 3, "interrupted", "abc")
		h := s.handle("s")
		if err := h.Push(s.ctx, "more"); !errors.Is(err, plane.ErrFenced) {
			t.Errorf("push answered %v", err)
		}
		if _, err := h.Flush(s.ctx); !errors.Is(err, plane.ErrFenced) {
			t.Errorf("flush answered %v", err)
		}
		s.wantStored("m1", 3, "interrupted", "abc")
	},
	"cancel/set-after-last-checkpoint-is-missed": func(t *testing.T, s *script) {
		s.wantErr("end", nil)
		s.wantStored("m1", 4, "cancelled", "abcd")
	},
	"cancel/quiet-generator-never-sees-it": quietGenerator,
	"subscribe/authorizer-undefined-allows": func(t *testing.T, s *script) {
		s.wantErr("r", plane.ErrDenied)
	},
	"subscribe/opened-during-authorize": func(t *testing.T, s *script) {
		s.wantReader("r", "abc", frame{Type: "end", Seq: 3, Status: "complete"})
	},
	"subscribe/shutdown-during-authorize": func(t *testing.T, s *script) {
		s.wantReader("r", "", frame{Type: "absent"})
	},
	"slow/cap-counts-frames-not-bytes": func(t *testing.T, s *script) {
		text := strings.Repeat("x", 3000) + strings.Repeat("y", 3000) + "z"
		s.wantReader("r", text, frame{Type: "end", Seq: 6001, Status: "complete"})
	},
	"slow/cap-below-replay-size-drops-replay": func(t *testing.T, s *script) {
		s.wantReader("r", "abcd", frame{Type: "end", Seq: 4, Status: "complete"})
	},
	"slow/cap-zero": func(t *testing.T, s *script) {
		s.wantReader("r", "a", frame{Type: "end", Seq: 1, Status: "complete"})
		policy := plane.DefaultPolicy()
		policy.MaxLag = -1
		_, err := actor.New(actor.Config{
			Node: "n", Plane: plane.Config{Store: s.store, Policy: policy}, Authorize: s.authorizer(planeConfig{}),
		})
		if !errors.Is(err, plane.ErrConfig) {
			t.Errorf("a lag that no reader can keep is answered %v", err)
		}
	},
	"slow/queued-tail-lost-at-linger": func(t *testing.T, s *script) {
		s.wantReader("r", "abc", frame{Type: "end", Seq: 3, Status: "complete"})
	},
	"relay/beyond-edge-swallows-text": func(t *testing.T, s *script) {
		// The script's source says no open. One of ours limits the offset, and says so.
		owner := newHost(t, nil)
		stream := owner.open("m1", "abc")
		edge := newHost(t, func(c *actor.Config) { c.Relay = newWire(owner.System).relay() })
		if _, err := stream.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []frame
		for range 3 {
			c, err := edge.Subscribe(t.Context(), actor.Access{Principal: "u1", StreamID: "m1", From: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				f, err := c.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, frameOf(f))
			}
		}
		want := []frame{
			{Type: "open", StreamID: "m1", From: 3, Seq: 3, DurableSeq: 3, Ended: true},
			{Type: "end", Seq: 3, Status: "complete"},
		}
		diff(t, "what readers past the end got", slices.Repeat(want, 3), got)
	},
	"linger/old-timer-after-teardown": func(t *testing.T, s *script) {
		s.wantReader("r", "two", frame{Type: "end", Seq: 3, Status: "complete"})
		s.wantReader("r2", "two", frame{Type: "end", Seq: 3, Status: "complete"})
	},
	"commit/answer-seq-beyond": func(t *testing.T, s *script) {
		const text = "0123456789abcdefgh"
		s.wantErr("f", nil)
		s.wantErr("end", nil)
		s.wantReader("r", text, frame{Type: "end", Seq: 18, Status: "complete"})
		if last := s.changes[len(s.changes)-1]; last.Body != text || last.BodyFrom != 0 || last.From > 18 {
			t.Errorf("the application was last given %+v", last)
		}
	},
	"commit/push-storm-while-down": func(t *testing.T, s *script) {
		var appends int
		for _, c := range s.changes {
			if c.Kind == plane.ChangeAppend {
				appends++
			}
		}
		if appends != 1 {
			t.Errorf("%d attempts before the interval has passed, want 1", appends)
		}
		s.wantErr("end", plane.ErrShort)
	},
	"text/pair-split-by-delta": func(t *testing.T, s *script) {
		for call, want := range map[string]int64{"f1": 1, "f2": 4} {
			if got := s.outcome(call).Value; got == nil || *got != want {
				t.Errorf("%s answered %v, want %d", call, got, want)
			}
		}
		s.wantReader("r", "a😀b", frame{Type: "end", Seq: 4, Status: "complete"})
		s.wantStored("m1", 4, "complete", "a😀b")
	},
	"text/nul-refused-by-the-store": func(t *testing.T, s *script) {
		s.wantErr("end", nil)
		s.wantReader("r", "ab\uFFFDcdefgh", frame{Type: "end", Seq: 9, Status: "complete"})
		s.wantStored("m1", 9, "complete", "ab\uFFFDcdefgh")
	},
	"text/leftover-chunk-rows": func(t *testing.T, s *script) {
		s.wantErr("s", plane.ErrExists)
		s.wantStored("m1", 0, "pending", "ZZZZ")
	},
	"text/leftover-body": func(t *testing.T, s *script) {
		s.wantErr("s", plane.ErrExists)
		s.wantStored("m1", 0, "pending", "OLD")
	},
}

// TestImprovedBehaviour holds ours to what is wanted where the recorded
// behaviour is not. Each such vector must have its check.
func TestImprovedBehaviour(t *testing.T) {
	var checked int
	for _, v := range loadVectors(t, "plane.json") {
		if v.Verdict != "improve" {
			continue
		}
		check := improvements[v.Name]
		if check == nil {
			t.Errorf("%s has no check for: %s", v.Name, v.Want)
			continue
		}
		checked++
		t.Run(v.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, v)
				defer s.end()
				check(t, s)
			})
		})
	}
	if checked != len(improvements) {
		t.Errorf("%d checks, but only %d vectors to be bettered", len(improvements), checked)
	}
}

// quietGenerator: the row's flag was set while the model says nothing. Told by
// its node, the stream ends its pump without another delta, and is sealed.
func quietGenerator(t *testing.T, s *script) {
	h := s.handle("s")
	var closed bool
	pumped := make(chan error, 1)
	go func() {
		pumped <- h.Pump(s.ctx, func(ctx context.Context) iter.Seq2[string, error] {
			return func(func(string, error) bool) {
				<-ctx.Done()
				closed = true
			}
		})
	}()
	synctest.Wait()
	begin := time.Now()
	h.Cancel()
	if err := <-pumped; err != nil || !closed || time.Since(begin) != 0 {
		t.Errorf("pump answered %v after %s, its source closed: %v", err, time.Since(begin), closed)
	}
	if end, err := h.Close(s.ctx); err != nil || end.Status != plane.StatusCancelled {
		t.Errorf("close answered %+v, %v", end, err)
	}
	s.wantStored("m1", 2, "cancelled", "ab")
}

// outcome is how a call was answered.
func (s *script) outcome(id string) outcome {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.steps {
		for _, o := range st.Settled {
			if o.ID == id {
				return o
			}
		}
	}
	s.t.Fatalf("%s was never answered", id)
	return outcome{}
}

func (s *script) wantErr(id string, want error) {
	s.t.Helper()
	if got := s.outcome(id); !errors.Is(got.err, want) {
		s.t.Errorf("%s answered %v, want %v", id, got.err, want)
	}
}

func (s *script) wantThrew(op int, want error) {
	s.t.Helper()
	st := s.steps[op]
	if st == nil || len(st.threw) != 1 || !errors.Is(st.threw[0], want) {
		s.t.Errorf("push of op %d answered %+v, want %v", op, st, want)
	}
}

func (s *script) wantStored(id string, seq int64, status, text string) {
	s.t.Helper()
	r := s.store.show()[id]
	if r.Seq == nil || *r.Seq != seq || *r.Status != status || r.Durable != text {
		s.t.Errorf("stored %q at %d, %s; want %q at %d, %s", r.Durable, *r.Seq, *r.Status, text, seq, status)
	}
}

// wantReader checks what a reader from offset 0 was shown, and its last frame.
func (s *script) wantReader(name, text string, last frame) {
	s.t.Helper()
	m := merged(s.seen()[name])
	want := []frame{last}
	if text != "" {
		want = []frame{{Type: "chunk", Seq: plane.Units(text), Text: vectorText(text)}, last}
	}
	got := m.Frames
	if len(got) > 0 && got[0].Type == "open" {
		got = got[1:]
	}
	diff(s.t, "what "+name+" got", want, got)
	if m.Durable > plane.Units(text) {
		s.t.Errorf("%s was told %d of %d durable", name, m.Durable, plane.Units(text))
	}
}
