package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// node is who opens streams in these tests: node/incarnation.
const node = "n1/boot1"

func testOpen(t *testing.T, open func(testing.TB) backed) {
	each(t, open, map[string]func(*testing.T, backed){
		"makes the row, or needs it": func(t *testing.T, s backed) {
			claim := plane.Claim{ID: "s", Node: node, Producer: "app", Meta: []byte(`{"b": 1, "a":"\u0000"}`)}
			row, err := s.Store.Open(bounded(t), claim)
			if s.lacks.Rows {
				if !errors.Is(err, plane.ErrNotFound) {
					t.Errorf("of no row: %v", err)
				}
				row, err = s.Open(bounded(t), claim)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := s.row(plane.Row{Status: plane.StatusStreaming, Token: node + "/1", Epoch: 1})
			equal(t, must(s.Read(bounded(t), "s"))(t), want)
			want.Producer = "app"
			equal(t, row, want)
		},
		"of a row that an application made": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) { r.Meta, r.Producer = []byte("[1]"), "app" })
			row := must(s.Open(bounded(t), plane.Claim{ID: "s", Node: node}))(t)
			stream, want := must(s.Get(bounded(t), "s"))(t), s.stream(store.Stream{Producer: "app", Meta: []byte("[1]")})
			equal(t, row, s.row(plane.Row{Status: plane.StatusStreaming, Token: node + "/1", Epoch: 1, Producer: want.Producer}))
			equal(t, stream.Producer, want.Producer)
			equal(t, stream.Meta, want.Meta)
		},
		"whose answer was lost is answered again": func(t *testing.T, s backed) {
			first := opened(t, s, "s")
			again, err := s.Open(bounded(t), plane.Claim{ID: "s", Node: node})
			if s.lacks.Tokens { // an answer that was given was not lost
				if !errors.Is(err, plane.ErrHeld) {
					t.Errorf("got %v", err)
				}
				return
			}
			equal(t, must(again, err)(t), first)
			claim := plane.Claim{ID: "of a producer", Node: node, Producer: "app"}
			equal(t, must(s.Open(bounded(t), claim))(t), must(s.Open(bounded(t), claim))(t))
		},
		"of a row cancelled before it began keeps the flag": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) { r.Cancel = true })
			if opened(t, s, "s").Cancel == s.lacks.Cancel {
				t.Error("the flag is gone, or was read")
			}
		},
		"of an ended empty row is a new epoch": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			cancelled(t, s, "s")
			sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusError, Error: "no", HasError: true})
			next := must(s.Open(bounded(t), plane.Claim{ID: "s", Node: "n2/boot1"}))(t)
			equal(t, next, s.row(plane.Row{Status: plane.StatusStreaming, Token: "n2/boot1/2", Epoch: 2}))
			stream := must(s.Get(bounded(t), "s"))(t)
			if stream.HasError || !stream.Ended.IsZero() {
				t.Errorf("the end of the epoch before is left: %+v", stream)
			}
		},
		"of many at once has one winner": openRace,
	})
	for name, refusal := range refusals {
		t.Run("refuses "+name, func(t *testing.T) {
			s := open(t)
			refusal.seed(s)
			before, _ := s.Row("s")
			_, err := s.Store.Open(bounded(t), plane.Claim{ID: "s", Node: node})
			want := refusal.want
			switch {
			case s.lacks.Rows && name == "chunks of a row that is gone":
				want = plane.ErrNotFound
			case s.lacks.Tokens && name == "its own row once it has text": // which the token tells
				want = plane.ErrHeld
			}
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			after, _ := s.Row("s")
			equal(t, after, before)
		})
	}
}

var refusals = map[string]struct {
	seed func(backed)
	want error
}{
	"a row with a length": {
		func(s backed) { s.Edit("s", func(r *Row) { r.Seq, r.Body = 3, "abc" }) }, plane.ErrExists,
	},
	"an ended row with a length": {
		func(s backed) {
			s.Edit("s", func(r *Row) { r.Seq, r.Body, r.Status = 3, "abc", plane.StatusComplete })
		}, plane.ErrExists,
	},
	"a row of length 0 with a body": {
		func(s backed) { s.Edit("s", func(r *Row) { r.Body = "abc" }) }, plane.ErrExists,
	},
	"a row of length 0 with chunks": {
		func(s backed) { s.Edit("s", func(r *Row) { r.Chunks = []plane.Chunk{{Seq: 3, Text: "abc"}} }) }, plane.ErrExists,
	},
	"chunks of a row that is gone": {
		func(s backed) {
			s.Edit("s", func(r *Row) { r.Chunks = []plane.Chunk{{Seq: 3, Text: "abc"}} })
			s.Delete("s")
		}, plane.ErrExists,
	},
	"a row that another streams": {
		func(s backed) {
			s.Edit("s", func(r *Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "n2/boot1/1", 1 })
		}, plane.ErrHeld,
	},
	"a row that another streams and has written to": {
		func(s backed) {
			s.Edit("s", func(r *Row) {
				r.Status, r.Token, r.Epoch, r.Seq = plane.StatusStreaming, "n2/boot1/1", 1, 3
				r.Chunks = []plane.Chunk{{Seq: 3, Text: "abc"}}
			})
		}, plane.ErrHeld,
	},
	"a row of the same node's earlier run": {
		func(s backed) {
			s.Edit("s", func(r *Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "n1/boot0/1", 1 })
		}, plane.ErrHeld,
	},
	"a streaming row without a token": {
		func(s backed) { s.Edit("s", func(r *Row) { r.Status = plane.StatusStreaming }) }, plane.ErrHeld,
	},
	"its own row once it has text": {
		func(s backed) {
			s.Edit("s", func(r *Row) {
				r.Status, r.Token, r.Epoch, r.Seq = plane.StatusStreaming, node+"/1", 1, 3
				r.Chunks = []plane.Chunk{{Seq: 3, Text: "abc"}}
			})
		}, plane.ErrExists,
	},
}

func openRace(t *testing.T, s backed) {
	const rivals = 100
	s.Edit("there", func(*Row) {})
	for _, id := range []string{"there", "not there"} {
		if id == "not there" && s.lacks.Rows {
			continue
		}
		rows, errs := make([]plane.Row, rivals), make([]error, rivals)
		ctx := bounded(t)
		var all sync.WaitGroup
		for n := range rivals {
			all.Go(func() {
				rows[n], errs[n] = s.Store.Open(ctx, plane.Claim{ID: id, Node: fmt.Sprintf("n%d/boot1", n)})
			})
		}
		all.Wait()
		var winners []plane.Row
		for n, err := range errs {
			switch {
			case err == nil:
				winners = append(winners, rows[n])
			case !errors.Is(err, plane.ErrHeld) && !errors.Is(err, plane.ErrLostRace):
				t.Errorf("a loser was told %v", err)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("%d of %d opens won", len(winners), rivals)
		}
		equal(t, must(s.Read(ctx, id))(t), winners[0])
	}
}

func opened(tb testing.TB, s store.Store, id string) plane.Row {
	tb.Helper()
	return must(s.Open(bounded(tb), plane.Claim{ID: id, Node: node}))(tb)
}

// appended appends text to a row as it is.
func appended(tb testing.TB, s store.Store, id string, row plane.Row, text string) plane.Row {
	tb.Helper()
	to := row.Seq + plane.Units(text)
	next := must(s.Append(bounded(tb), plane.Slice{ID: id, Token: row.Token, From: row.Seq, Seq: to, Text: text}))(tb)
	if next.Seq != to {
		tb.Fatalf("appended up to %d, the row says %d", to, next.Seq)
	}
	return next
}

func sealed(tb testing.TB, s store.Store, seal plane.Seal) plane.Row {
	tb.Helper()
	return must(s.Seal(bounded(tb), seal))(tb)
}

// cancelled asks a stream to stop, if the store has a place for that.
func cancelled(tb testing.TB, s backed, id string) plane.Row {
	tb.Helper()
	if s.lacks.Cancel {
		return must(s.Read(bounded(tb), id))(tb)
	}
	return must(s.Cancel(bounded(tb), id))(tb)
}

// whole reads a text page by page.
func whole(ctx context.Context, s store.Store, id string, limit int64) (string, error) {
	var text string
	for {
		page, err := s.Text(ctx, id, plane.Units(text), limit)
		if err != nil || page.Text == "" {
			return text, err
		}
		if page.From != plane.Units(text) {
			return text, fmt.Errorf("asked from %d, answered from %d", plane.Units(text), page.From)
		}
		text += page.Text
	}
}

func must[T any](result T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return result
	}
}

func equal[T any](tb testing.TB, got, want T) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("want (-), got (+):\n%s", diff)
	}
}
