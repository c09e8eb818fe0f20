package storetest

import (
	"fmt"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/plane"
)

func testInterrupt(t *testing.T, open func(testing.TB) backed) {
	if s := open(t); s.lacks.Tokens {
		row := opened(t, s, "s")
		equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 0)
		equal(t, must(s.Read(bounded(t), "s"))(t), row)
		return
	}
	each(t, open, map[string]func(*testing.T, backed){
		"seals what earlier runs of the node left": interruptOne,
		"leaves a zombie nothing to write to":      interruptZombie,
		"ends a row whose text has a hole there": func(t *testing.T, s backed) {
			s.Edit("s", func(r *Row) {
				r.Status, r.Token, r.Seq = plane.StatusStreaming, "n1/boot1/1", 6
				r.Chunks = []plane.Chunk{{Seq: 2, Text: "ab"}, {Seq: 6, Text: "ef"}}
			})
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 1)
			stored, _ := s.Row("s")
			isCut(t, s, stored)
		},
		"of hundreds": func(t *testing.T, s backed) {
			for n := range 250 {
				s.Edit(fmt.Sprintf("s%d", n), func(r *Row) { r.Status, r.Token = plane.StatusStreaming, "n1/boot1/1" })
			}
			equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 250)
		},
		"is refused for what is no name": func(t *testing.T, s backed) {
			for _, name := range []string{"", "a/b"} {
				if _, err := s.Interrupt(bounded(t), name, "boot"); err == nil {
					t.Errorf("node %q: no error", name)
				}
				if _, err := s.Interrupt(bounded(t), "n1", name); err == nil {
					t.Errorf("incarnation %q: no error", name)
				}
			}
		},
	})
}

func interruptOne(t *testing.T, s backed) {
	const left, kept = plane.StatusInterrupted, plane.StatusStreaming
	rows := map[string]struct {
		token string
		want  plane.Status
	}{
		"mine": {"n1/boot2/1", kept}, "old": {"n1/boot1/1", left}, "older": {"n1/boot0/7", left},
		"like mine": {"n1/boot22/1", left}, "other": {"n2/boot1/1", kept}, "prefix": {"n11/boot1/1", kept},
		"wild": {"n_/boot1/1", kept}, "none": {"", kept},
	}
	for id, row := range rows {
		s.Edit(id, func(r *Row) {
			r.Status, r.Token, r.Seq = plane.StatusStreaming, row.token, 6
			r.Chunks = []plane.Chunk{{Seq: 4, Text: "ab😀"}, {Seq: 6, Text: "cd"}}
		})
	}
	equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 3)
	for id, row := range rows {
		stored, _ := s.Row(id)
		equal(t, stored.Status, row.want)
		if row.want == left {
			equal(t, stored.Body, "ab😀cd")
			equal(t, stored.Chunks, nil)
		}
		equal(t, must(whole(bounded(t), s, id, 0))(t), "ab😀cd")
	}
	equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 0)
	equal(t, must(s.Interrupt(bounded(t), "n_", "boot2"))(t), 1)
}

func interruptZombie(t *testing.T, s backed) {
	row := appended(t, s, "s", opened(t, s, "s"), "abc")
	equal(t, must(s.Interrupt(bounded(t), "n1", "boot2"))(t), 1)
	before, _ := s.Row("s")
	want := row
	want.Status = plane.StatusInterrupted
	slice := plane.Slice{ID: "s", Token: row.Token, From: 3, Seq: 4, Text: "d"}
	equal(t, must(s.Append(bounded(t), slice))(t), want)
	equal(t, sealed(t, s, plane.Seal{ID: "s", Token: row.Token, Status: plane.StatusComplete, From: 3, Seq: 5, Text: "abcde"}), want)
	after, _ := s.Row("s")
	equal(t, after, before)
}

// isCut checks a row, 6 units long, whose text has a hole from 2 on, when its
// stream has ended: there, with what lies beyond as it was.
func isCut(t *testing.T, s backed, r Row) {
	t.Helper()
	equal(t, r.Status, plane.StatusInterrupted)
	equal(t, r.Body, "ab")
	equal(t, r.Seq, 2)
	equal(t, r.Chunks, []plane.Chunk{{Seq: 6, Text: "ef"}})
	if !s.lacks.Error && !strings.Contains(r.Error, "deleted by others") {
		t.Errorf("its error is %q", r.Error)
	}
}
