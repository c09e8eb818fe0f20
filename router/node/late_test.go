package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// wantHeard reads until the end, of which a follower that never looks by itself is
// told.
func wantHeard(t *testing.T, r *reader, status plane.Status, seq int64) {
	t.Helper()
	if err := r.rest(); err != nil || r.end.Status != status || r.end.Seq != seq {
		t.Errorf("%+v, %v", r.end, err)
	}
}

// followed opens a stream on one node that somebody follows on another.
func followed(t *testing.T, one, other *running) (*reader, int64) {
	t.Helper()
	one.open("m1")
	r := other.reads("m1", "plane=durable")
	pos := one.push("m1", 0, "text 😀 ")
	one.flush("m1")
	if err := r.until(pos); err != nil {
		t.Fatal(err)
	}
	return r, pos
}

func TestAFollowerIsToldOfAnEndThatANodesNextRunWrites(t *testing.T) {
	t.Parallel()
	one, other := twoNodes(t, node.Config{Policy: patient(), Limits: told()})
	r, pos := followed(t, one, other)
	one.restart()
	wantHeard(t, r, plane.StatusInterrupted, pos)
}

func TestAFollowerIsToldOfAnEndThatASweepWrites(t *testing.T) {
	t.Parallel()
	cfg := brief(pgtest.URL(t), "n1")
	cfg.Policy, cfg.Limits = patient(), told()
	one, other := twoNodes(t, cfg)
	r, pos := followed(t, one, other)
	one.http.CloseIdleConnections()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	wantHeard(t, r, plane.StatusInterrupted, pos)
}

func TestAFollowerIsToldOfAnEndThatTheStoreTookLate(t *testing.T) {
	t.Parallel()
	one, other := twoNodes(t, node.Config{Policy: failing(), Limits: told()})
	r, pos := followed(t, one, other)
	one.sql("ALTER TABLE rillkeep.streams ADD CONSTRAINT unfinished CHECK (status <> 'complete') NOT VALID")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := one.client.Close(ctx, "m1", wire.Close{}); err == nil {
		t.Error("the store takes an end that it can't")
	}
	wantHeard(t, r, plane.StatusInterrupted, pos)
}

// The last commits are lost: their server was replaced by one that lagged behind.
func TestWhatADatabaseHasLostIsCommittedAgain(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Database: pgtest.URL(t), Policy: patient()})
	n.open("m1")
	r := n.reads("m1", "")
	pos, text := int64(0), ""
	for _, delta := range []string{"naïve ", "😀 ", "text, ", "and"} {
		pos, text = n.push("m1", pos, delta), text+delta
		n.flush("m1")
	}
	n.sql("UPDATE rillkeep.streams SET seq = 6")
	n.sql("DELETE FROM rillkeep.chunks WHERE seq > 6")
	pos, text = n.push("m1", pos, " more"), text+" more"
	n.flush("m1")
	if snap := n.snapshot("m1"); snap.Text != text || snap.DurableSeq != pos || snap.Status != plane.StatusStreaming {
		t.Errorf("%+v", snap)
	}
	if units := n.count("SELECT seq FROM rillkeep.streams"); int64(units) != pos {
		t.Errorf("the row is at %d of %d", units, pos)
	}
	n.seal("m1")
	wantHeard(t, r, plane.StatusComplete, pos)
	wantEnding(t, n, "m1", plane.StatusComplete, text)
	if m := n.metrics(); m["rillkeep_store_went_back_total"] != 1 || m["rillkeep_texts_lost_total"] != 0 {
		t.Errorf("counted %v and %v", m["rillkeep_store_went_back_total"], m["rillkeep_texts_lost_total"])
	}
}

func TestARowThatIsBackAtAnEarlierClaimDoesNotStayStreaming(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{Database: pgtest.URL(t), Policy: patient()})
	n.sql("INSERT INTO rillkeep.streams (id, status, host, epoch) VALUES ('m1', 'interrupted', 'n0/x/1', 1)")
	n.open("m1")
	pos := n.push("m1", 0, "text ")
	n.flush("m1")
	n.sql("UPDATE rillkeep.streams SET host = replace(host, '/2', '/1'), epoch = 1, seq = 0")
	n.sql("DELETE FROM rillkeep.chunks")
	n.push("m1", pos, "more")
	if _, err := n.client.Flush(t.Context(), "m1"); !errors.Is(err, plane.ErrFenced) {
		t.Errorf("flush answered %v", err)
	}
	await(t, "no row says streaming (L)", func() bool { return n.rowOf("m1").Status == plane.StatusInterrupted })
	if m := n.metrics(); m["rillkeep_store_went_back_total"] != 1 {
		t.Errorf("counted %v", m["rillkeep_store_went_back_total"])
	}
}

// Memory is short, so that only the database has the beginning of the text.
func TestAStreamWhoseTextIsGoneEndsOnceWhereItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone     string
		wentBack float64
	}{
		"deleted by others": {"DELETE FROM rillkeep.chunks WHERE seq = 20000", 0},
		"lost by the database": {
			"WITH c AS (DELETE FROM rillkeep.chunks WHERE seq > 10000) UPDATE rillkeep.streams SET seq = 10000", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := openNode(t, node.Config{Database: pgtest.URL(t), Policy: patient(), MaxText: node.MinMaxText})
			n.open("m1")
			r := n.reads("m1", "")
			pos := int64(0)
			for i := range 16 {
				pos = n.push("m1", pos, stretch(1, int64(i)*10_000, int64(i+1)*10_000))
				n.flush("m1")
			}
			if err := r.until(pos); err != nil {
				t.Fatal(err)
			}
			n.sql(c.gone)
			n.push("m1", pos, "more")
			if _, err := n.client.Flush(t.Context(), "m1"); (err == nil) != (c.wentBack == 0) {
				t.Errorf("flush answered %v", err)
			}
			if _, err := n.client.Close(t.Context(), "m1", wire.Close{}); err == nil {
				t.Error("it ends with all of its text")
			}
			if err := r.rest(); err != nil || r.end.Status != plane.StatusInterrupted || r.end.Seq != 10_000 || !r.end.HasError {
				t.Errorf("%+v, %v", r.end, err)
			}
			wantEnding(t, n, "m1", plane.StatusInterrupted, stretch(1, 0, 10_000))
			<-time.After(2 * time.Second) // longer than before a repair
			m := n.metrics()
			if m["rillkeep_texts_lost_total"] != 1 || m["rillkeep_store_went_back_total"] != c.wentBack {
				t.Errorf("counted %v and %v", m["rillkeep_texts_lost_total"], m["rillkeep_store_went_back_total"])
			}
		})
	}
}
