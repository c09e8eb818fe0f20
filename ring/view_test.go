package ring

import (
	"log/slog"
	"slices"
	"testing"
)

func TestATableThatCannotBeMadeLeavesTheOneThatIs(t *testing.T) {
	t.Parallel()
	j := newJournal(slog.New(slog.DiscardHandler))
	r := &Ring{roster: newRoster(Member{Name: "a/1", Node: "a", Incarnation: "1"}), journal: j, refused: newRefusals(j)}
	table, err := NewTable(nil, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	r.view.Store(&View{Table: table, self: "a/1", changed: make(chan struct{})})
	put := func(name, node string) {
		r.roster.put(record{Member: Member{Name: name, Node: node, Incarnation: "1", State: Active}})
		r.look()
	}
	put("a/1", "a")
	r.cfg.Settings.Load = 0.5 // as good as anything that can't be
	put("b/1", "b")
	v := r.View()
	if !slices.Equal(v.Names(), []string{"a/1"}) || len(v.Members()) != 2 {
		t.Errorf("owners %v of members %v", v.Names(), v.Members())
	}
	if owner, ok := v.Owner("s"); !ok || owner != "a/1" {
		t.Errorf("owner %q, %v", owner, ok)
	}
	r.cfg.Settings.Load = 0
	put("c/1", "c")
	if v := r.View(); !slices.Equal(v.Names(), []string{"a/1", "b/1", "c/1"}) {
		t.Errorf("afterwards %v", v.Names())
	}
}
