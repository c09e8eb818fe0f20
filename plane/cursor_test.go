package plane_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"rillkeep.dev/rillkeep/plane"
)

func TestWhereAJoinBegins(t *testing.T) {
	const text = "abc😀def" // the pair is at 3
	for name, tt := range map[string]struct {
		from, want int64
		rest       string
	}{
		"at the start":         {0, 0, text},
		"below the start":      {-5, 0, text},
		"in the middle":        {2, 2, "c😀def"},
		"before a pair":        {3, 3, "😀def"},
		"inside a pair":        {4, 3, "😀def"},
		"after a pair":         {5, 5, "def"},
		"at the end":           {8, 8, ""},
		"past the end":         {9, 8, ""},
		"far past the end":     {1<<63 - 1, 8, ""},
		"far below the start":  {-1 << 63, 0, text},
		"at the durable mark":  {5, 5, "def"},
		"past the durable one": {6, 6, "ef"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil)
				s.push("abc😀")
				wantAnswer(t, "flush", s.flushed(), nil)
				s.push("def")
				c := s.Join(tt.from)
				defer c.Close()
				got := take(c)
				want := plane.Frame{
					Kind: plane.KindOpen, StreamID: "m1", From: tt.want, Seq: 8, DurableSeq: 5, Epoch: 1,
				}
				if got.frames[0] != want || got.text != tt.rest {
					t.Errorf("got %+v and %q, want %+v and %q", got.frames[0], got.text, want, tt.rest)
				}
				// What is durable past the join is told after its text.
				if told := got.durable == 5; told != (tt.want < 5) {
					t.Errorf("told of %d durable", got.durable)
				}
				s.push("tail")
				if _, err := s.Close(s.ctx); err != nil {
					t.Fatal(err)
				}
				if more := take(c); more.text != "tail" || more.last.Kind != plane.KindEnd || more.last.Seq != 12 {
					t.Errorf("then got %q and %+v", more.text, more.last)
				}
			})
		})
	}
}

func TestAJoinAfterTheEndGetsAllOfItAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		for from, kinds := range map[int64][]plane.Kind{
			0: {plane.KindOpen, plane.KindChunk, plane.KindDurable, plane.KindEnd},
			3: {plane.KindOpen, plane.KindEnd},
			9: {plane.KindOpen, plane.KindEnd},
		} {
			got := s.join(from)
			for i, f := range got.frames {
				if f.Kind != kinds[i] || f.Kind == plane.KindOpen && !f.Ended {
					t.Errorf("from %d: frame %d is %+v, want %s", from, i, f, kinds[i])
				}
			}
			if len(got.frames) != len(kinds) {
				t.Errorf("from %d: got %+v", from, got.frames)
			}
		}
	})
}

func TestNothingFollowsATerminalFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]*plane.Cursor{"an end": s.Join(0), "an absent": plane.Absent()} {
			take(c)
			if f, ok, more := c.Poll(); ok || more != nil {
				t.Errorf("after %s: polled %+v", name, f)
			}
			if _, err := c.Next(s.ctx); err != io.EOF {
				t.Errorf("after %s: next answered %v", name, err)
			}
			c.Close()
			c.Close()
		}
		if n := s.State().Readers; n != 0 {
			t.Errorf("%d readers are left", n)
		}
	})
}

func TestReadersAreIndependentAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		a, b, c := s.Join(0), s.Join(0), s.Join(0)
		s.push("abc")
		if got := take(a); got.text != "abc" {
			t.Errorf("the first got %q", got.text)
		}
		a.Close()
		a.Close()
		c.Close() // never read
		if n := s.State().Readers; n != 1 {
			t.Errorf("%d readers", n)
		}
		if _, err := a.Next(s.ctx); err != io.EOF {
			t.Errorf("a closed one answered %v", err)
		}
		s.push("def")
		if got := take(b); got.text != "abcdef" {
			t.Errorf("the second got %q", got.text)
		}
		b.Close()
		if n := s.State().Readers; n != 0 {
			t.Errorf("%d readers", n)
		}
	})
}

func TestNextWaitsForWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		take(c)
		begin := time.Now()
		time.AfterFunc(time.Minute, func() { s.push("abc") })
		if f, err := c.Next(s.ctx); err != nil || f.Text != "abc" || time.Since(begin) != time.Minute {
			t.Errorf("next answered %+v, %v after %s", f, err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		if f, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("next answered %+v, %v", f, err)
		}
		s.push("def") // the cursor goes on where it was
		if f, err := c.Next(s.ctx); err != nil || f.From != 3 || f.Text != "def" {
			t.Errorf("next answered %+v, %v", f, err)
		}
	})
}

func TestFramesEndWithTheTerminalOneOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.push("abc")
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		var kinds []plane.Kind
		for f, err := range s.Join(0).Frames(ctx) {
			if err != nil {
				if !errors.Is(err, context.Canceled) || len(kinds) != 2 {
					t.Errorf("ended with %v after %v", err, kinds)
				}
				break
			}
			if kinds = append(kinds, f.Kind); f.Kind == plane.KindChunk {
				cancel()
			}
		}
		go func() { _, _ = s.Close(s.ctx) }()
		var last plane.Frame
		for f, err := range s.Join(0).Frames(s.ctx) {
			if err != nil {
				t.Fatal(err)
			}
			last = f
		}
		if last.Kind != plane.KindEnd {
			t.Errorf("the last frame is %+v", last)
		}
		if n := s.State().Readers; n != 0 {
			t.Errorf("%d readers are left", n)
		}
	})
}

// A reader that was slow catches up in merged frames, bounded and never cut
// inside a character; whoever reads at the tip is not held up.
func TestASlowReaderCatchesUpInBoundedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxOutstanding = 1 << 30 }))
		slow := s.Join(0)
		defer slow.Close()
		quick := s.Join(0)
		defer quick.Close()
		take(quick)
		for i := range 40_000 {
			s.push([]string{"é", "漢字", "😀", "x"}[i%4]) // the first chunk's limit falls inside 漢
			if got := take(quick); len(got.frames) == 0 || got.frames[0].Kind != plane.KindChunk {
				t.Fatalf("delta %d: the quick reader got %+v", i, got.frames)
			}
		}
		got := take(slow)
		if got.text != s.pushed {
			t.Errorf("the slow reader got %d bytes of %d", len(got.text), len(s.pushed))
		}
		chunks := 0
		at := int64(0)
		for _, f := range got.frames {
			if f.Kind != plane.KindChunk {
				continue
			}
			if chunks++; f.From != at || len(f.Text) > plane.MaxChunk || !utf8.ValidString(f.Text) || plane.Units(f.Text) != f.Seq-f.From {
				t.Errorf("chunk %d..%d after %d holds %d bytes", f.From, f.Seq, at, len(f.Text))
			}
			at = f.Seq
		}
		if least := len(s.pushed)/(plane.MaxChunk) + 1; chunks > least+1 {
			t.Errorf("%d chunks, %d would do", chunks, least)
		}
	})
}

func TestAReaderBeyondItsLagIsSentToTheDurablePlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, policy(func(p *plane.Policy) { p.MaxLag = 1000 }))
		c := s.Join(0)
		defer c.Close()
		take(c)
		s.push(strings.Repeat("x", 1000))
		if got := take(c); len(got.text) != 1000 {
			t.Errorf("at the limit: got %+v", got.frames)
		}
		synctest.Wait()
		s.push(strings.Repeat("y", 1001))
		got := take(c)
		if got.text != "" || got.last.Kind != plane.KindStale || got.last.FloorSeq != 0 || got.last.DurableSeq != s.State().Durable {
			t.Errorf("past the limit: got %+v", got.frames)
		}
		if n := s.State().Readers; n != 0 {
			t.Errorf("%d readers are left", n)
		}
	})
}

func TestReadersAtTheTipShareOneEncodedFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		cursors := make([]*plane.Cursor, 1000)
		for i := range cursors {
			cursors[i] = s.Join(0)
			defer cursors[i].Close()
			take(cursors[i])
		}
		var encoded int
		encode := func(dst []byte, f plane.Frame) []byte {
			encoded++
			return append(dst, f.Text...)
		}
		polled := func(want string) {
			t.Helper()
			encoded = 0
			for _, c := range cursors {
				f, ok, _ := c.Poll()
				if wire := f.Encoded(encode); !ok || string(wire) != want {
					t.Fatalf("a reader got %q, want %q", wire, want)
				}
			}
			if encoded != 1 {
				t.Errorf("encoded %d times", encoded)
			}
		}
		s.push("abc")
		polled("abc")
		wantAnswer(t, "flush", s.flushed(), nil)
		polled("") // the durable mark
		if _, err := s.Close(s.ctx); err != nil {
			t.Fatal(err)
		}
		polled("") // the end
	})
}

func TestAPollSaysWhenToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		c := s.Join(0)
		defer c.Close()
		take(c)
		for _, change := range []func(){
			func() { s.push("abc") },
			func() { wantAnswer(t, "flush", s.flushed(), nil) },
			func() { wantAnswer(t, "close", s.closed(), nil) },
		} {
			_, ok, more := c.Poll()
			if ok || more == nil {
				t.Fatalf("polled %v, %v before a change", ok, more)
			}
			change()
			select {
			case <-more:
			default:
				t.Error("was not told of a change")
			}
			take(c)
		}
	})
}
