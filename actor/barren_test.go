package actor_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
)

// brief is a source that ends with an error after so many frames and so long.
type brief struct {
	actor.Source
	frames int
	lives  time.Duration
	since  time.Time
	end    error
}

func (b *brief) Next(ctx context.Context) (plane.Frame, error) {
	if b.since.IsZero() {
		b.since = time.Now()
	}
	if b.frames == 0 {
		time.Sleep(time.Until(b.since.Add(b.lives)))
		return plane.Frame{}, b.end
	}
	b.frames--
	return b.Source.Next(ctx)
}

// briefly makes all sources of an edge such, from the second one on.
func briefly(p *pair, of *actor.Config, frames int, lives time.Duration, end error) {
	attach, first := of.Relay.Attach, true
	of.Relay.Attach = func(ctx context.Context, id string, from, epoch int64) (actor.Source, int64, error) {
		s, at, err := attach(ctx, id, from, epoch)
		if s == nil || first {
			first = false
			return s, at, err
		}
		return &brief{Source: s, frames: frames, lives: lives, end: end}, at, nil
	}
}

// barren is a reader at the edge that has "abc", of which all is durable, when its
// source is cut for the first time. All later sources give so many frames, live for
// so long, and end with an error.
func barren(t *testing.T, frames int, lives time.Duration, end error, play func(p *pair, s *plane.Stream, c *plane.Cursor)) {
	synctest.Test(t, func(t *testing.T) {
		p := new(pair)
		*p = *newPair(t, func(c *actor.Config) { briefly(p, c, frames, lives, end) })
		s := p.owner.open("m1", "abc")
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := p.join(t, "m1", 0)
		synctest.Wait()
		if text, _ := drain(c); text != "abc" {
			t.Fatalf("read %q", text)
		}
		p.wire.cut()
		play(p, s, c)
		c.Close()
	})
}

// told is what a reader has been told by now, and whether that was the last.
func told(c *plane.Cursor) (text string, last plane.Frame) {
	synctest.Wait()
	return drain(c)
}

func TestASourceThatOnlyOpensAndBreaksIsStaleAfterThreeWindows(t *testing.T) {
	for _, lives := range []time.Duration{0, 100 * time.Millisecond, actor.DefaultAttachWindow - time.Millisecond} {
		t.Run(lives.String(), func(t *testing.T) {
			barren(t, 1, lives, errCut, func(p *pair, s *plane.Stream, c *plane.Cursor) {
				push(t, s, "def") // and nobody here gets it
				time.Sleep(3*actor.DefaultAttachWindow - time.Millisecond)
				if text, last := told(c); text != "" || last.Kind != "" {
					t.Errorf("read %q, %+v before the windows are over", text, last)
				}
				time.Sleep(time.Millisecond + lives)
				if text, last := told(c); text != "" || last.Kind != plane.KindStale || last.FloorSeq != 3 || last.DurableSeq != 3 {
					t.Errorf("read %q, %+v after them", text, last)
				}
				if asked, _ := p.wire.attaches(); asked > 24 {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}

func TestASourceThatFallsSilentAgainAndAgainIsStale(t *testing.T) {
	const idle = 12500 * time.Millisecond
	end := fmt.Errorf("read the answer: %w", os.ErrDeadlineExceeded)
	barren(t, 1, idle, end, func(_ *pair, s *plane.Stream, c *plane.Cursor) {
		push(t, s, "def")
		time.Sleep(idle - time.Millisecond)
		if text, last := told(c); text != "" || last.Kind != "" {
			t.Errorf("read %q, %+v before the source is lost", text, last)
		}
		time.Sleep(time.Millisecond)
		if text, last := told(c); text != "" || last.Kind != plane.KindStale || last.FloorSeq != 3 {
			t.Errorf("read %q, %+v when it is", text, last)
		}
	})
}

func TestAQuietStreamWhoseLinkIsResetNowAndThenIsNeverStale(t *testing.T) {
	barren(t, 1, actor.DefaultAttachWindow, errCut, func(_ *pair, s *plane.Stream, c *plane.Cursor) {
		time.Sleep(time.Hour)
		if text, last := told(c); text != "" || last.Kind != "" {
			t.Errorf("read %q, %+v", text, last)
		}
	})
}

// scripted gives frames, and then breaks.
type scripted []plane.Frame

func (s *scripted) Next(context.Context) (f plane.Frame, err error) {
	if len(*s) == 0 {
		return f, errCut
	}
	f, *s = (*s)[0], (*s)[1:]
	return f, nil
}

func (*scripted) Close() error { return nil }

// Text alone is worth another attach, and so is a durable mark alone.
func TestASourceThatBreaksAfterEachFrameIsStaleWhenThereAreNoMore(t *testing.T) {
	const all = 100
	chunk := func(from, to int64) plane.Frame {
		return plane.Frame{Kind: plane.KindChunk, From: from, Seq: to, Text: strings.Repeat("x", int(to-from)), Epoch: 1}
	}
	for name, next := range map[string]func(n, from int64) []plane.Frame{
		"text": func(n, from int64) []plane.Frame { return []plane.Frame{chunk(from, n)} },
		"marks": func(n, _ int64) []plane.Frame {
			return []plane.Frame{chunk(0, all), {Kind: plane.KindDurable, Seq: n}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := int64(0)
				attach := func(_ context.Context, _ string, from, _ int64) (actor.Source, int64, error) {
					s := scripted{{Kind: plane.KindOpen, StreamID: "m1", From: from, Seq: all, Epoch: 1}}
					if n++; n <= all {
						s = append(s, next(n, from)...)
					}
					return &s, 1, nil
				}
				h := newHost(t, func(c *actor.Config) { c.Relay = &actor.Relay{Attach: attach} })
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				c, err := h.Subscribe(ctx, actor.Access{Principal: "u1", StreamID: "m1"})
				if err != nil {
					t.Fatal(err)
				}
				var last plane.Frame
				for last.Kind != plane.KindStale {
					if last, err = c.Next(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if n <= all || last.FloorSeq != all {
					t.Errorf("read %+v after %d sources", last, n)
				}
			})
		})
	}
}

func TestADurableMarkOfABreakIsToldAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		s := p.owner.open("m1", "abc")
		c := p.join(t, "m1", 0)
		if text, last := told(c); text != "abc" || last.Kind != plane.KindChunk {
			t.Fatalf("read %q, %+v", text, last)
		}
		p.wire.set(func(w *wire) { w.down = true })
		p.wire.cut()
		if _, err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.wire.set(func(w *wire) { w.down = false })
		time.Sleep(time.Second)
		if _, last := told(c); last.Kind != plane.KindDurable || last.Seq != 3 {
			t.Errorf("read %+v", last)
		}
		c.Close()
	})
}
