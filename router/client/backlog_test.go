package client

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
)

// sends takes all that there is to send now.
func (b *backlog) sends(t *testing.T, n int) string {
	t.Helper()
	var got strings.Builder
	for range n {
		text, ok := b.take(t.Context())
		if !ok {
			t.Fatal("there is nothing more")
		}
		got.WriteString(text)
	}
	return got.String()
}

func filled(t *testing.T, from int64, deltas ...string) *backlog {
	t.Helper()
	b := newBacklog(from, maxBacklog)
	for _, delta := range deltas {
		if err := b.add(t.Context(), delta); err != nil {
			t.Fatalf("no room for %q: %v", delta, err)
		}
	}
	return b
}

func TestWhatAStreamDidNotTakeAlongIsSentAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		to   int64
		want string // "" where it is not there any more
	}{
		"all":                     {10, "abc😀def"},
		"from between two deltas": {13, "😀def"},
		"from within a delta":     {16, "ef"},
		"nothing":                 {18, ""},
		"from inside a pair":      {14, "😀def"},
	} {
		b := filled(t, 10, "abc", "😀", "def")
		b.sends(t, 3)
		if !b.rewind(tt.to) {
			t.Errorf("%s: refused", name)
			continue
		}
		if got := b.sends(t, len(b.deltas)-b.next); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	b := filled(t, 10, "abc", "def")
	b.sends(t, 2)
	b.forget(13)
	for _, to := range []int64{9, 12, 17} {
		if b.rewind(to) {
			t.Errorf("went back to %d, which is not there", to)
		}
	}
	b.forget(16)
	if !b.rewind(16) || b.rewind(13) {
		t.Error("when all is durable it goes on at the end, and nowhere else")
	}
}

func TestOnlyWhatWasSentIsForgotten(t *testing.T) {
	b := filled(t, 0, "abc", "def")
	b.forget(6)
	if got := b.sends(t, 2); got != "abcdef" {
		t.Errorf("sent %q", got)
	}
}

func TestASourceThatIsFarAheadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", maxBacklog)
		b := newBacklog(0, maxBacklog)
		given := 0
		failed := errors.New("the source broke")
		go b.fill(t.Context(), func(context.Context) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, delta := range []string{long, "a", "b"} {
					if !yield(delta, nil) {
						return
					}
					given++
				}
				yield("", failed)
			}
		})
		synctest.Wait()
		if given != 1 {
			t.Errorf("%d deltas are kept", given)
		}
		b.sends(t, 1)
		b.forget(maxBacklog)
		synctest.Wait()
		if got := b.sends(t, 2); got != "ab" || given != 3 || b.failed() != failed {
			t.Errorf("%q, %d given, %v", got, given, b.failed())
		}
		if _, ok := b.take(t.Context()); ok {
			t.Error("there is more than the source gave")
		}
		if err := b.add(t.Context(), "late"); err == nil {
			t.Error("what nobody sends is taken")
		}
	})
}

func TestWhoWaitsForTheSourceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBacklog(0, maxBacklog)
		done := make(chan bool)
		go func() { _, ok := b.take(ctx); done <- ok }()
		synctest.Wait()
		cancel()
		if <-done {
			t.Error("something was taken")
		}
	})
}
