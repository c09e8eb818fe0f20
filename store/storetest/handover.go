package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
)

// heir is who adopts streams in these tests: node/incarnation.
const heir = "n2/boot1"

func testHandover(t *testing.T, open func(testing.TB) backed) {
	if s := open(t); s.lacks.Tokens {
		row := opened(t, s, "s")
		if _, err := s.Disown(bounded(t), "s", row.Token, 1); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("disown: %v", err)
		}
		if _, err := s.Adopt(bounded(t), "s", row.Token, heir); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("adopt: %v", err)
		}
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
		return
	}
	each(t, open, map[string]func(*testing.T, backed){
		"changes the owner and nothing else":          handOver,
		"goes round":                                  handRound,
		"may be asked for again":                      handAgain,
		"leaves the old owner nothing to write to":    handFences,
		"keeps a cancel flag from before and between": handCancelled,
		"leaves what is disowned to who adopts it":    handNobodys,
		"tells the producer and its session":          handProducer,
		"of a row that is another's changes nothing":  handOthers,
		"with a mark that is not the row's is refused": func(t *testing.T, s backed) {
			row := opened(t, s, "s")
			first := disowned(t, s, "s", row.Token)
			second := disowned(t, s, "s", adopted(t, s, "s", first.Token, node).Token)
			if first.Token == second.Token {
				t.Error("two marks are the same")
			}
			for mark, want := range map[string]error{first.Token: plane.ErrLostRace, "": plane.ErrLostRace, row.Token: plane.ErrLostRace} {
				if _, err := s.Adopt(bounded(t), "s", mark, heir); !errors.Is(err, want) {
					t.Errorf("mark %q: %v, want %v", mark, err, want)
				}
			}
			equal(t, must(s.Read(bounded(t), "s"))(t), second)
		},
		"is refused where there is no row": func(t *testing.T, s backed) {
			if _, err := s.Disown(bounded(t), "s", node+"/1", 1); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("disown: %v", err)
			}
			if _, err := s.Adopt(bounded(t), "s", "/1/1", heir); !errors.Is(err, plane.ErrNotFound) {
				t.Errorf("adopt: %v", err)
			}
		},
		"is undone by a seal with the mark, and by no other write": handBack,
		"and an append at once decide between them":                handAppendRace,
		"and a seal at once decide between them":                   handSealRace,
		"of many adopters at once has one winner":                  adoptRace,
		"and its taking back decide between them":                  backRace,
	})
}

func handOver(t *testing.T, s backed) {
	row := appended(t, s, "s", opened(t, s, "s"), "abc😀")
	left := disowned(t, s, "s", row.Token)
	want := row
	want.Token = left.Token
	equal(t, left, want)
	equal(t, must(s.Read(bounded(t), "s"))(t), want)
	row.Token = heir + "/1"
	equal(t, adopted(t, s, "s", left.Token, heir), row)
	equal(t, must(s.Read(bounded(t), "s"))(t), row)
	row = appended(t, s, "s", row, "def")
	end := sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: row.Seq, Base: 3, Seq: row.Seq + 1, Text: "😀defg"})
	equal(t, end.Status, plane.StatusComplete)
	equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc😀defg")
}

func handRound(t *testing.T, s backed) {
	row, text := opened(t, s, "s"), ""
	for n := range 12 {
		row = appended(t, s, "s", row, fmt.Sprint(n, "😀"))
		text += fmt.Sprint(n, "😀")
		left := disowned(t, s, "s", row.Token)
		row = adopted(t, s, "s", left.Token, fmt.Sprintf("n%d/boot1", n%3))
		equal(t, row.Epoch, 1)
	}
	equal(t, must(whole(bounded(t), s, "s", 0))(t), text)
}

func handAgain(t *testing.T, s backed) {
	row := appended(t, s, "s", opened(t, s, "s"), "abc")
	left := disowned(t, s, "s", row.Token)
	equal(t, disowned(t, s, "s", row.Token), left)
	now := adopted(t, s, "s", left.Token, heir)
	equal(t, adopted(t, s, "s", left.Token, heir), now)
	// The owner before, who had no answer, sees what became of it.
	equal(t, must(s.Disown(bounded(t), "s", row.Token, 1))(t), now)
	// And the new one that it has the row, whatever mark it saw.
	equal(t, adopted(t, s, "s", now.Token, heir), now)
}

func handFences(t *testing.T, s backed) {
	row := appended(t, s, "s", opened(t, s, "s"), "abc")
	left := disowned(t, s, "s", row.Token)
	for range 2 { // when it is nobody's, and when it is another's
		before, _ := s.Row("s")
		for _, token := range []string{row.Token, "", "n3/boot1/1"} {
			slice := plane.Slice{ID: "s", Token: token, From: 3, Seq: 4, Text: "x"}
			equal(t, must(s.Append(bounded(t), slice))(t), left)
			for _, seal := range []plane.Seal{{From: 3, Seq: 4, Text: "abcx"}, {From: 3, Base: 1, Seq: 4, Text: "bcx"}, {From: 3, Seq: 3, Text: "abc"}} {
				seal.ID, seal.Token, seal.Status = "s", token, plane.StatusInterrupted
				equal(t, sealed(t, s, seal), left)
			}
		}
		after, _ := s.Row("s")
		equal(t, after, before)
		left = adopted(t, s, "s", left.Token, heir)
	}
}

func handCancelled(t *testing.T, s backed) {
	for _, when := range []string{"before", "between"} {
		row := appended(t, s, when, opened(t, s, when), "abc")
		if when == "before" {
			cancelled(t, s, when)
		}
		left := disowned(t, s, when, row.Token)
		if when == "between" {
			left = cancelled(t, s, when)
		}
		now := adopted(t, s, when, left.Token, heir)
		equal(t, now, s.row(plane.Row{Seq: 3, Status: plane.StatusStreaming, Cancel: true, Token: heir + "/1", Epoch: 1}))
		end := sealed(t, s, plane.Seal{ID: when, Token: now.Token, Status: plane.StatusComplete, From: 3, Seq: 3, Text: "abc"})
		if !s.lacks.Cancel {
			equal(t, end.Status, plane.StatusCancelled)
		}
	}
}

// handNobodys is of others that are after a row that was disowned.
func handNobodys(t *testing.T, s backed) {
	row := appended(t, s, "s", opened(t, s, "s"), "abc")
	left := disowned(t, s, "s", row.Token)
	if _, err := s.Open(bounded(t), plane.Claim{ID: "s", Node: node}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("open: %v", err)
	}
	equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc")
	if _, err := s.TakeOver(bounded(t), left.Token, plane.Claim{ID: "s", Node: heir}); !errors.Is(err, plane.ErrLostRace) {
		t.Errorf("take over: %v", err)
	}
	equal(t, must(s.Read(bounded(t), "s"))(t), left)
}

func handProducer(t *testing.T, s backed) {
	row := must(s.Open(bounded(t), plane.Claim{ID: "s", Node: node, Producer: "app \x00"}))(t)
	equal(t, row.Producer, "app \uFFFD")
	for _, session := range []int64{1, 7, 1 << 40} {
		left := must(s.Disown(bounded(t), "s", row.Token, session))(t)
		equal(t, left.Session(), session)
		equal(t, left.Producer, "")
		row = adopted(t, s, "s", left.Token, heir)
		equal(t, row.Session(), 0)
		equal(t, row.Producer, s.stream(store.Stream{Producer: "app \uFFFD"}).Producer)
		equal(t, adopted(t, s, "s", left.Token, heir), row)
	}
}

func handOthers(t *testing.T, s backed) {
	held := opened(t, s, "held")
	equal(t, must(s.Disown(bounded(t), "held", heir+"/1", 1))(t), held)
	ended := opened(t, s, "ended")
	ended = sealed(t, s, plane.Seal{ID: "ended", Token: ended.Token, Status: plane.StatusComplete})
	equal(t, must(s.Disown(bounded(t), "ended", ended.Token, 1))(t), ended)
	s.Edit("pending", func(*Row) {})
	pending := must(s.Read(bounded(t), "pending"))(t)
	equal(t, must(s.Disown(bounded(t), "pending", "", 1))(t), pending)
	left := disowned(t, s, "left", opened(t, s, "left").Token)
	equal(t, must(s.Disown(bounded(t), "left", left.Token, 1))(t), left)
	for id, c := range map[string]struct {
		row  plane.Row
		want error
	}{"held": {held, plane.ErrHeld}, "ended": {ended, plane.ErrClosed}, "pending": {pending, plane.ErrNotFound}} {
		for _, mark := range []string{c.row.Token, left.Token, ""} {
			if _, err := s.Adopt(bounded(t), id, mark, heir); !errors.Is(err, c.want) {
				t.Errorf("adopt the %s one: %v, want %v", id, err, c.want)
			}
		}
		equal(t, must(s.Read(bounded(t), id))(t), c.row)
	}
}

// takeBack is the seal of a row that was disowned, by who did so.
func takeBack(id string, left plane.Row) plane.Seal {
	return plane.Seal{ID: id, Token: left.Token, Status: plane.StatusInterrupted, From: left.Seq, Base: left.Seq, Seq: left.Seq}
}

func handBack(t *testing.T, s backed) {
	first := disowned(t, s, "s", appended(t, s, "s", opened(t, s, "s"), "abc😀").Token)
	left := disowned(t, s, "s", adopted(t, s, "s", first.Token, heir).Token)
	equal(t, sealed(t, s, takeBack("s", first)), left) // by a mark of before
	end := sealed(t, s, takeBack("s", left))
	want := left
	want.Status = plane.StatusInterrupted
	equal(t, end, want)
	equal(t, sealed(t, s, takeBack("s", left)), want)
	equal(t, must(whole(bounded(t), s, "s", 0))(t), "abc😀")
	if _, err := s.Adopt(bounded(t), "s", left.Token, heir); !errors.Is(err, plane.ErrClosed) {
		t.Errorf("adopt what was taken back: %v", err)
	}
	now := adopted(t, s, "t", disowned(t, s, "t", opened(t, s, "t").Token).Token, heir)
	equal(t, sealed(t, s, takeBack("t", left)), now)
	equal(t, must(s.Read(bounded(t), "t"))(t), now)
}

func backRace(t *testing.T, s backed) {
	back := 0
	for n := range rounds {
		id := fmt.Sprint("s", n)
		left := disowned(t, s, id, appended(t, s, id, opened(t, s, id), "abc").Token)
		var now, end plane.Row
		var refused error
		var both sync.WaitGroup
		both.Go(func() {
			now, refused = unlocked(func() (plane.Row, error) { return s.Adopt(bounded(t), id, left.Token, heir) })
		})
		both.Go(func() { end = patient(t, func() (plane.Row, error) { return s.Seal(bounded(t), takeBack(id, left)) }) })
		both.Wait()
		if end.Status.Ended() {
			back++
			if !errors.Is(refused, plane.ErrClosed) {
				t.Errorf("%s was taken back, and the adoption answered %v", id, refused)
			}
		} else {
			equal(t, refused, nil)
			equal(t, end, now)
		}
		equal(t, must(s.Read(bounded(t), id))(t), end)
		equal(t, must(whole(bounded(t), s, id, 0))(t), "abc")
	}
	t.Logf("%d of %d were taken back", back, rounds)
}

// rounds is how often a race is run.
const rounds = 50

// endRace has an append come at the same moment as the end of its owner's time: what
// is answered to both is the row, with the text or without. ends takes the row from its
// owner, and check looks at what that made of it.
func endRace(t *testing.T, s backed, ends func(id string, old plane.Row) plane.Row, check func(row plane.Row, units int64)) {
	landed := 0
	for n := range rounds {
		id := fmt.Sprint("s", n)
		old := appended(t, s, id, opened(t, s, id), "abc")
		slice := plane.Slice{ID: id, Token: old.Token, From: 3, Seq: 6, Text: "def"}
		var row, after plane.Row
		var both sync.WaitGroup
		both.Go(func() { row = ends(id, old) })
		both.Go(func() { after = patient(t, func() (plane.Row, error) { return s.Append(bounded(t), slice) }) })
		both.Wait()
		want := "abc"
		if after.Token == old.Token {
			landed++
			want = "abcdef"
			equal(t, after.Seq, 6)
		} else {
			equal(t, after, row)
		}
		check(row, plane.Units(want))
		equal(t, must(s.Read(bounded(t), id))(t), row)
		equal(t, must(whole(bounded(t), s, id, 0))(t), want)
	}
	t.Logf("%d of %d appends were first", landed, rounds)
}

func handAppendRace(t *testing.T, s backed) {
	endRace(t, s, func(id string, old plane.Row) plane.Row {
		return patient(t, func() (plane.Row, error) { return s.Disown(bounded(t), id, old.Token, 1) })
	}, func(left plane.Row, units int64) {
		equal(t, left.Disowned(), true)
		equal(t, left.Seq, units)
	})
}

func handSealRace(t *testing.T, s backed) {
	landed := 0
	for n := range rounds {
		id := fmt.Sprint("s", n)
		row := appended(t, s, id, opened(t, s, id), "abc")
		seal := plane.Seal{ID: id, Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 4, Text: "abcd"}
		var left, end plane.Row
		var both sync.WaitGroup
		both.Go(func() { left = patient(t, func() (plane.Row, error) { return s.Disown(bounded(t), id, row.Token, 1) }) })
		both.Go(func() { end = patient(t, func() (plane.Row, error) { return s.Seal(bounded(t), seal) }) })
		both.Wait()
		want := "abc"
		if end.Status.Ended() {
			landed++
			want = "abcd"
		}
		equal(t, left, end)
		equal(t, left.Disowned(), !end.Status.Ended())
		equal(t, must(whole(bounded(t), s, id, 0))(t), want)
	}
	t.Logf("%d of %d seals were first", landed, rounds)
}

func adoptRace(t *testing.T, s backed) {
	const rivals = 4
	row := opened(t, s, "s")
	for range rounds {
		left := disowned(t, s, "s", row.Token)
		rows, errs := make([]plane.Row, rivals), make([]error, rivals)
		var all sync.WaitGroup
		for n := range rivals {
			all.Go(func() {
				rows[n], errs[n] = unlocked(func() (plane.Row, error) { return s.Adopt(bounded(t), "s", left.Token, fmt.Sprintf("n%d/boot1", n)) })
			})
		}
		all.Wait()
		winners := 0
		for n, err := range errs {
			switch {
			case err == nil:
				winners, row = winners+1, rows[n]
			case !errors.Is(err, plane.ErrHeld):
				t.Errorf("a loser was told %v", err)
			}
		}
		if winners != 1 {
			t.Fatalf("%d of %d adoptions won", winners, rivals)
		}
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
	}
}

// unlocked repeats a call that finds its row locked.
func unlocked(call func() (plane.Row, error)) (row plane.Row, err error) {
	for row, err = call(); errors.Is(err, store.ErrBusy); {
		row, err = call()
	}
	return row, err
}

// patient is unlocked for a call that must succeed.
func patient(t *testing.T, call func() (plane.Row, error)) plane.Row {
	row, err := unlocked(call)
	if err != nil {
		t.Error(err)
	}
	return row
}

// disowned gives a row up, which must be so afterwards.
func disowned(tb testing.TB, s store.Store, id, token string) plane.Row {
	tb.Helper()
	row := must(s.Disown(bounded(tb), id, token, 1))(tb)
	if !row.Disowned() {
		tb.Fatalf("disowned, the row says %+v", row)
	}
	return row
}

func adopted(tb testing.TB, s store.Store, id, mark, by string) plane.Row {
	tb.Helper()
	return must(s.Adopt(bounded(tb), id, mark, by))(tb)
}
