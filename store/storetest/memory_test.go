package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) store.Store { return storetest.NewMemory() })
}

func TestSharedMemory(t *testing.T) {
	storetest.RunShared(t, func(testing.TB) storetest.Database { return storetest.NewSharedMemory(nil) })
}

func TestMemoryOfRowsThatMustBeThere(t *testing.T) {
	storetest.RunLacking(t, storetest.Lacks{Rows: true}, func(testing.TB) store.Store {
		m := storetest.NewMemory()
		m.MustExist = true
		return m
	})
}

const node = "n1/boot1"

// append adds text at from under the first epoch's token.
func appendText(m *storetest.Memory, from int64, text string) (plane.Row, error) {
	to := from + plane.Units(text)
	return m.Append(context.Background(), plane.Slice{ID: "s", Token: node + "/1", From: from, Seq: to, Text: text})
}

func open(t *testing.T, m *storetest.Memory) {
	t.Helper()
	if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: node}); err != nil {
		t.Fatal(err)
	}
}

func length(m *storetest.Memory) int64 {
	row, _ := m.Row("s")
	return row.Seq
}

func TestWritesFailBeforeTheyRun(t *testing.T) {
	m := storetest.NewMemory()
	open(t, m)
	m.FailWrites(1)
	if _, err := appendText(m, 0, "a"); !errors.Is(err, storetest.ErrWrite) || length(m) != 0 {
		t.Errorf("got %v at %d", err, length(m))
	}
	if _, err := appendText(m, 0, "a"); err != nil || length(m) != 1 {
		t.Errorf("got %v at %d", err, length(m))
	}
}

func TestLostAnswersAreOfWritesThatRan(t *testing.T) {
	m := storetest.NewMemory()
	m.LoseAcks(2)
	if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: node}); !errors.Is(err, storetest.ErrAckLost) {
		t.Errorf("open: %v", err)
	}
	open(t, m)
	if row, err := appendText(m, 0, "a"); !errors.Is(err, storetest.ErrAckLost) || length(m) != 1 || row != (plane.Row{}) {
		t.Errorf("append: %+v, %v at %d", row, err, length(m))
	}
}

func TestReadsFailAndAppendsThatCannotBeReadBack(t *testing.T) {
	m := storetest.NewMemory()
	m.FailReads(1)
	if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: node}); !errors.Is(err, storetest.ErrRead) {
		t.Errorf("open: %v", err)
	}
	open(t, m)
	m.FailReads(1)
	if _, err := appendText(m, 0, "a"); !errors.Is(err, storetest.ErrRead) || length(m) != 1 {
		t.Errorf("append: %v at %d", err, length(m))
	}
	if _, err := m.Read(t.Context(), "s"); !errors.Is(err, storetest.ErrRead) {
		t.Errorf("the append used up the fault: %v", err)
	}
	if row, err := m.Read(t.Context(), "s"); err != nil || row.Seq != 1 {
		t.Errorf("got %+v, %v", row, err)
	}
}

func TestLatencyIsBeforeAWriteAndAfterAnAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		open(t, m)
		m.Latency(30*time.Millisecond, 5*time.Millisecond)
		go appendText(m, 0, "a")
		time.Sleep(29 * time.Millisecond)
		synctest.Wait()
		if length(m) != 0 {
			t.Error("it ran at once")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if length(m) != 1 || len(m.Calls()) != 1 {
			t.Errorf("after 30 ms the length is %d, the calls are %v", length(m), m.Calls())
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if len(m.Calls()) != 2 {
			t.Errorf("after 35 ms the calls are %v", m.Calls())
		}
	})
}

func TestAHangLastsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		open(t, m)
		m.Hang(true)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := m.Read(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		m.Clear()
		if _, err := m.Read(t.Context(), "s"); err != nil {
			t.Error(err)
		}
	})
}

func TestARivalWinsTheRace(t *testing.T) {
	m := storetest.NewMemory()
	m.Edit("s", func(*storetest.Row) {})
	m.Rival("s", func(r *storetest.Row) { r.Status, r.Token, r.Epoch = plane.StatusStreaming, "n2/boot1/1", 1 })
	if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: node}); !errors.Is(err, plane.ErrLostRace) {
		t.Errorf("got %v", err)
	}
	if row, _ := m.Row("s"); row.Token != "n2/boot1/1" {
		t.Errorf("the row is %q's", row.Token)
	}
}

func TestColumnsOfAnApplication(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*storetest.Row)
		want error
	}{
		"no row":                            {nil, plane.ErrNotFound},
		"a NULL length":                     {func(r *storetest.Row) { r.NullSeq = true }, plane.ErrNullLength},
		"a NULL status":                     {func(r *storetest.Row) { r.Status = "" }, nil},
		"a status of the application's own": {func(r *storetest.Row) { r.Status = "draft" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory()
			m.MustExist = true
			if c.edit != nil {
				m.Edit("s", c.edit)
			}
			if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: node}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestWithoutTokensNothingIsGuardedByThem(t *testing.T) {
	m := storetest.NewMemory()
	m.NoTokens = true
	open(t, m)
	open(t, m) // a lost answer is still known
	if _, err := m.Open(t.Context(), plane.Claim{ID: "s", Node: "n2/boot1"}); !errors.Is(err, plane.ErrHeld) {
		t.Errorf("got %v", err)
	}
	row, err := m.Append(t.Context(), plane.Slice{ID: "s", Seq: 1, Text: "a"})
	if err != nil || row.Seq != 1 || row.Token != "" {
		t.Errorf("got %+v, %v", row, err)
	}
}

func TestCallsAreLogged(t *testing.T) {
	m := storetest.NewMemory()
	m.RejectNUL = true
	open(t, m)
	if _, err := appendText(m, 0, "a\x00"); !errors.Is(err, storetest.ErrNUL) {
		t.Errorf("got %v", err)
	}
	if _, err := appendText(m, 0, "ab"); err != nil {
		t.Fatal(err)
	}
	calls := m.Calls()
	for n := range calls {
		calls[n].At = time.Time{}
	}
	want := []storetest.Call{
		{Kind: "open", ID: "s", Outcome: "ok"},
		{Kind: "append", ID: "s", Seq: 2, Text: "a\x00", Outcome: `append "s": text holds NUL`},
		{Kind: "append", ID: "s", Seq: 2, Text: "ab", Outcome: "ok"},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}
