package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// In these tests no node has a lease: all are as good as dead.

func testTakeover(t *testing.T, open func(testing.TB) backed) {
	if s := open(t); s.lacks.Tokens {
		row := opened(t, s, "s")
		if _, err := s.TakeOver(bounded(t), row.Token, plane.Claim{ID: "s", Node: heir}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
		return
	}
	each(t, open, map[string]func(*testing.T, backed){
		"begins an epoch where the durable text ends": takeOver,
		"may be asked for again":                      takeAgain,
		"leaves the old owner nothing to write to":    takeFences,
		"keeps a cancel flag":                         takeCancelled,
		"of a stream without text":                    takeEmpty,
		"goes round, with hand-overs between":         takeRound,
		"of what is not to be taken is refused":       takeRefused,
		"of many at once has one winner":              takeRace,
		"and an append at once decide between them":   takeAppendRace,
		"and a seal at once decide between them":      takeSealRace,
		"and a hand-over at once decide between them": takeDisownRace,
	})
}

// taken takes a row over for heir.
func taken(tb testing.TB, s backed, id, token string) plane.Row {
	tb.Helper()
	return must(s.TakeOver(bounded(tb), token, plane.Claim{ID: id, Node: heir}))(tb)
}

func takeOver(t *testing.T, s backed) {
	old := appended(t, s, "s", must(s.Open(bounded(t), plane.Claim{ID: "s", Node: node, Producer: "app", Meta: []byte(`{"a":1}`)}))(t), "abc😀")
	before := must(s.Get(bounded(t), "s"))(t)
	claim := plane.Claim{ID: "s", Node: heir, Producer: "another \x00", Meta: []byte(`[]`)}
	row := must(s.TakeOver(bounded(t), old.Token, claim))(t)
	want := plane.Row{Seq: 5, Status: plane.StatusStreaming, Token: heir + "/2/5", Epoch: 2, Producer: "another \uFFFD"}
	equal(t, row, want)
	equal(t, row.Origins(), plane.Origins{5})
	want.Producer = ""
	equal(t, must(s.Read(bounded(t), "s"))(t), want)
	after := must(s.Get(bounded(t), "s"))(t)
	expected := before
	expected.Row, expected.Updated = want, after.Updated
	if !s.lacks.Details {
		expected.Producer = "another \uFFFD"
	}
	equal(t, after, expected)
	equal(t, must(s.List(bounded(t), store.Query{}))(t)[0].Row, want)

	row = appended(t, s, "s", row, "def")
	end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Base: 3, Seq: row.Seq + 1, Text: "😀defg"})
	equal(t, end.Status, plane.StatusComplete)
	equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc😀defg")
	for what, row := range map[string]plane.Row{
		"sealed": end, "read": must(s.Read(bounded(t), "s"))(t), "page": must(s.Text(bounded(t), "s", 0, 0))(t).Row,
		"got": must(s.Get(bounded(t), "s"))(t).Row, "listed": must(s.List(bounded(t), store.Query{}))(t)[0].Row,
	} {
		if row.Epoch != 2 || !slices.Equal(row.Origins(), plane.Origins{5}) {
			t.Errorf("%s: it ended as %+v", what, row)
		}
	}
}

func takeAgain(t *testing.T, s backed) {
	old := appended(t, s, "s", opened(t, s, "s"), "abc")
	row := taken(t, s, "s", old.Token)
	equal(t, taken(t, s, "s", old.Token), row)
	row = appended(t, s, "s", row, "def") // the answer was late
	equal(t, taken(t, s, "s", old.Token), row)
	// It is no answer to who asks with another token, or for another node.
	next := must(s.TakeOver(bounded(t), row.Token, plane.Claim{ID: "s", Node: "n3/boot1"}))(t)
	equal(t, next.Token, "n3/boot1/3/3,6")
	for _, c := range []struct{ token, by string }{{old.Token, heir}, {row.Token, heir}, {old.Token, "n3/boot1"}} {
		if _, err := s.TakeOver(bounded(t), c.token, plane.Claim{ID: "s", Node: c.by}); !errors.Is(err, plane.ErrLostRace) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	equal(t, must(s.Read(bounded(t), "s"))(t), next)
}

func takeFences(t *testing.T, s backed) {
	old := appended(t, s, "s", opened(t, s, "s"), "abc")
	row := taken(t, s, "s", old.Token)
	before, _ := s.Row("s")
	for _, token := range []string{old.Token, heir + "/2", heir + "/1/3", node + "/2/3", heir + "/2/4", ""} {
		slice := plane.Slice{ID: "s", Token: token, From: 3, Seq: 4, Text: "x"}
		equal(t, must(s.Append(bounded(t), slice))(t), row)
		for _, seal := range []plane.Seal{{From: 3, Seq: 4, Text: "abcx"}, {From: 3, Base: 1, Seq: 4, Text: "bcx"}, {From: 3, Seq: 3, Text: "abc"}} {
			seal.ID, seal.Token, seal.Status = "s", token, plane.StatusInterrupted
			equal(t, sealed(t, s, seal), row)
		}
		equal(t, must(s.Disown(bounded(t), "s", token, 1))(t), row)
	}
	after, _ := s.Row("s")
	equal(t, after, before)
}

func takeCancelled(t *testing.T, s backed) {
	old := appended(t, s, "s", opened(t, s, "s"), "abc")
	cancelled(t, s, "s")
	row := taken(t, s, "s", old.Token)
	equal(t, row, s.row(plane.Row{Seq: 3, Status: plane.StatusStreaming, Cancel: true, Token: heir + "/2/3", Epoch: 2}))
}

func takeEmpty(t *testing.T, s backed) {
	row := taken(t, s, "s", opened(t, s, "s").Token)
	equal(t, row.Token, heir+"/2/0")
	// Who has it is answered as if it had opened it, and another is not.
	equal(t, must(s.Open(bounded(t), plane.Claim{ID: "s", Node: heir}))(t), row)
	if _, err := s.Open(bounded(t), plane.Claim{ID: "s", Node: node}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("got %v", err)
	}
	// An end without text is the end of all its epochs.
	sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusError})
	equal(t, opened(t, s, "s").Token, node+"/3")
}

// takeRound is of more epochs than a row remembers.
func takeRound(t *testing.T, s backed) {
	row, text, origins := opened(t, s, "s"), "", plane.Origins(nil)
	for n := range plane.MaxOrigins + 4 {
		row = appended(t, s, "s", row, fmt.Sprint(n, "😀"))
		text += fmt.Sprint(n, "😀")
		by := fmt.Sprintf("n%d/boot1", n%3+5)
		if n%2 == 0 {
			left := disowned(t, s, "s", row.Token)
			equal(t, left.Origins(), origins)
			equal(t, left.Epoch, row.Epoch)
			row = adopted(t, s, "s", left.Token, by)
		}
		equal(t, row.Origins(), origins)
		origins = origins.Begin(row.Seq)
		want := row
		want.Epoch++
		want.Token = plane.MakeToken(by, want.Epoch, origins)
		row = must(s.TakeOver(bounded(t), row.Token, plane.Claim{ID: "s", Node: by}))(t)
		equal(t, row, want)
	}
	equal(t, len(row.Origins()), plane.MaxOrigins)
	equal(t, must(whole(bounded(t), s, "s", 0))(t), text)
}

func takeRefused(t *testing.T, s backed) {
	rows := map[string]plane.Row{"held": appended(t, s, "held", opened(t, s, "held"), "abc")}
	rows["left"] = disowned(t, s, "left", opened(t, s, "left").Token)
	end := plane.Seal{ID: "ended", Token: opened(t, s, "ended").Token, Status: plane.StatusComplete}
	rows["ended"] = sealed(t, s, end)
	for id, token := range map[string]string{"nobody": "", "odd": "odd", "slash": "odd/", "nameless": "/boot1/1"} {
		s.Edit(id, func(r *Row) { r.Status, r.Token = plane.StatusStreaming, token })
	}
	s.Edit("pending", func(r *Row) { r.Token = node + "/1" })
	for _, id := range []string{"nobody", "odd", "slash", "nameless", "pending"} {
		rows[id] = must(s.Read(bounded(t), id))(t)
	}
	want := map[string]error{"ended": plane.ErrClosed, "pending": plane.ErrNotFound}
	for id, row := range rows {
		for _, token := range []string{row.Token, node + "/2", "n11/boot1/1", "n1/boot11/1", node + "/1/3", ""} {
			if id == "held" && token == row.Token {
				continue
			}
			_, err := s.TakeOver(bounded(t), token, plane.Claim{ID: id, Node: heir})
			if expected := want[id]; !errors.Is(err, expected) && expected != nil || expected == nil && !errors.Is(err, plane.ErrLostRace) {
				t.Errorf("the %s one with %q: %v", id, token, err)
			}
		}
		equal(t, must(s.Read(bounded(t), id))(t), row)
	}
	if _, err := s.TakeOver(bounded(t), node+"/1", plane.Claim{ID: "none", Node: heir}); !errors.Is(err, plane.ErrNotFound) {
		t.Errorf("of no row: %v", err)
	}
}

func takeRace(t *testing.T, s backed) {
	const rivals = 4
	row := appended(t, s, "s", opened(t, s, "s"), "abc")
	for n := range rounds {
		rows, errs := make([]plane.Row, rivals), make([]error, rivals)
		var all sync.WaitGroup
		for i := range rivals {
			claim := plane.Claim{ID: "s", Node: fmt.Sprintf("n%d/boot1", n%2*rivals+i)}
			all.Go(func() {
				rows[i], errs[i] = unlocked(func() (plane.Row, error) { return s.TakeOver(bounded(t), row.Token, claim) })
			})
		}
		all.Wait()
		winners, won := 0, row
		for i, err := range errs {
			switch {
			case err == nil:
				winners, won = winners+1, rows[i]
			case !errors.Is(err, plane.ErrLostRace):
				t.Errorf("a loser was told %v", err)
			}
		}
		if winners != 1 || won.Epoch != row.Epoch+1 {
			t.Fatalf("%d of %d takeovers won, and made %+v of %+v", winners, rivals, won, row)
		}
		row = won
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
	}
}

func takeAppendRace(t *testing.T, s backed) {
	endRace(t, s, func(id string, old plane.Row) plane.Row {
		return patient(t, func() (plane.Row, error) {
			return s.TakeOver(bounded(t), old.Token, plane.Claim{ID: id, Node: heir})
		})
	}, func(row plane.Row, units int64) {
		equal(t, row.Token, plane.MakeToken(heir, 2, plane.Origins{units}))
	})
}

func takeSealRace(t *testing.T, s backed) {
	landed := 0
	for n := range rounds {
		id := fmt.Sprint("s", n)
		old := appended(t, s, id, opened(t, s, id), "abc")
		seal := plane.Seal{ID: id, Token: old.Token, Status: plane.StatusComplete, From: 3, Seq: 4, Text: "abcd"}
		var row, end plane.Row
		var err error
		var both sync.WaitGroup
		both.Go(func() {
			row, err = unlocked(func() (plane.Row, error) { return s.TakeOver(bounded(t), old.Token, plane.Claim{ID: id, Node: heir}) })
		})
		both.Go(func() { end = patient(t, func() (plane.Row, error) { return s.Seal(bounded(t), seal) }) })
		both.Wait()
		want := "abc"
		if end.Status.Ended() {
			landed++
			want = "abcd"
			if !errors.Is(err, plane.ErrClosed) {
				t.Errorf("the stream has ended, and the takeover was told %v", err)
			}
		} else {
			equal(t, must(row, err)(t), end)
		}
		equal(t, must(s.Read(bounded(t), id))(t), end)
		equal(t, must(whole(bounded(t), s, id, 0))(t), want)
	}
	t.Logf("%d of %d seals were first", landed, rounds)
}

func takeDisownRace(t *testing.T, s backed) {
	landed := 0
	for n := range rounds {
		id := fmt.Sprint("s", n)
		old := appended(t, s, id, opened(t, s, id), "abc")
		var row, left plane.Row
		var err error
		var both sync.WaitGroup
		both.Go(func() {
			row, err = unlocked(func() (plane.Row, error) { return s.TakeOver(bounded(t), old.Token, plane.Claim{ID: id, Node: heir}) })
		})
		both.Go(func() { left = patient(t, func() (plane.Row, error) { return s.Disown(bounded(t), id, old.Token, 1) }) })
		both.Wait()
		if left.Disowned() {
			landed++
			if !errors.Is(err, plane.ErrLostRace) {
				t.Errorf("the row was disowned, and the takeover was told %v", err)
			}
		} else {
			equal(t, must(row, err)(t), left)
		}
		equal(t, must(s.Read(bounded(t), id))(t), left)
	}
	t.Logf("%d of %d hand-overs were first", landed, rounds)
}
