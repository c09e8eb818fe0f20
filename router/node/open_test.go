package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/postgres"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

func TestAnOpenIsForOneProducer(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{}, func(t *testing.T, n *running) {
		for i := range 20 {
			id := fmt.Sprint("m", i)
			answers := make([]answer, 4)
			var all sync.WaitGroup
			for at := range answers {
				all.Go(func() {
					var err error
					if answers[at], err = n.try(t.Context(), http.MethodPost, path(id), ""); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			won := 0
			for _, a := range answers {
				if a.status == http.StatusCreated {
					won++
				} else {
					wantError(t, id, a, http.StatusConflict, "open_here")
				}
			}
			if won != 1 {
				t.Errorf("%s: %d won", id, won)
			}
		}
		n.whole("sealed", "text")
		wantError(t, "lingering", n.do(http.MethodPost, path("sealed"), ""), http.StatusConflict, "exists")
		n = n.restart()
		wantError(t, "sealed", n.do(http.MethodPost, path("sealed"), ""), http.StatusConflict, "exists")
	})
}

func TestAnOpenThatIsNotUnderstoodOpensNothing(t *testing.T) {
	t.Parallel()
	n := openNode(t, node.Config{})
	for _, body := range []string{`{`, `[]`, `"x"`, `{"producer":7}`, `{"resume":"yes"}`, `{"meta":}`, `{"meta":{}`, `{"meta":1}}`, `x`} {
		wantError(t, body, n.do(http.MethodPost, path("m1"), body), http.StatusBadRequest, "bad_request")
	}
	wantError(t, "snapshot", n.do(http.MethodGet, path("m1"), "", "Accept", "application/json"), http.StatusNotFound, "not_found")
}

func TestAProducerResumesWhereItsStreamIs(t *testing.T) {
	t.Parallel()
	onEachStore(t, node.Config{Policy: patient()}, func(t *testing.T, n *running) {
		resume := func(status int, want wire.Opened) {
			t.Helper()
			a := n.do(http.MethodPost, path("m1"), `{"resume":true}`)
			want.StreamID, want.Epoch = "m1", 1
			if a.status != status || decode[wire.Opened](t, a) != want {
				t.Errorf("resume: %d %s, want %d %+v", a.status, a.body, status, want)
			}
		}
		resume(http.StatusCreated, wire.Opened{Status: plane.StatusStreaming, ProducerEpoch: "1.1"}) // there was none
		n.push("m1", 0, "durable ")
		n.flush("m1")
		n.push("m1", 8, "produced")
		resume(http.StatusOK, wire.Opened{Seq: 16, DurableSeq: 8, Status: plane.StatusStreaming, ProducerEpoch: "1.2"})
		if a := n.do(http.MethodPost, path("m1", "append"), `{"text":"\ud83d"}`); a.status != http.StatusOK {
			t.Fatal(a)
		}
		resume(http.StatusOK, wire.Opened{Seq: 17, DurableSeq: 8, Status: plane.StatusStreaming, ProducerEpoch: "1.3"}) // a half is received
		n.seal("m1")
		end := wire.Opened{Seq: 17, DurableSeq: 17, Status: plane.StatusComplete}
		resume(http.StatusOK, end)
		n = n.restart()
		resume(http.StatusOK, end)
	})
}

func TestAStreamIsOneNodes(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	owner := openNode(t, node.Config{Database: database, Name: "owner", Policy: eager()})
	other := openNode(t, node.Config{Database: database, Name: "other", Policy: eager()})
	owner.open("m1")
	pos := owner.push("m1", 0, "text")
	owner.flush("m1")
	for _, c := range []struct{ action, body string }{
		{"", ""}, {"", `{"resume":true}`}, {"append", `{"text":"x"}`}, {"pump", `{"text":"x"}`}, {"flush", ""}, {"close", ""}, {"fail", ""},
	} {
		target := path("m1")
		if c.action != "" {
			target = path("m1", c.action)
		}
		wantError(t, c.action+c.body, other.do(http.MethodPost, target, c.body), http.StatusConflict, "held")
	}
	// What is durable can be read anywhere, and followed.
	r := other.reads("m1", "")
	if err := r.until(pos); err != nil {
		t.Fatal(err)
	}
	pos = owner.push("m1", pos, " goes on")
	if err := r.until(pos); err != nil {
		t.Fatal(err)
	}
	if snap := other.snapshot("m1"); snap.Text != "text goes on" || snap.Status != plane.StatusStreaming {
		t.Errorf("%+v", snap)
	}
	// So can the stop, which the owner sees with its next checkpoint.
	if a := other.do(http.MethodPost, path("m1", "cancel"), ""); a.status != http.StatusAccepted {
		t.Errorf("cancel: %d %s", a.status, a.body)
	}
	await(t, "the owner knows", func() bool {
		a := owner.do(http.MethodPost, path("m1", "append"), `{"text":"!"}`)
		return a.err().Code == "cancelled" || a.err().Code == "closed"
	})
	if err := r.rest(); err != nil || r.end.Status != plane.StatusCancelled {
		t.Errorf("%+v, %v", r.end, err)
	}
	// A node that starts seals its own orphans, not another's streams.
	owner.open("m2")
	other = other.restart()
	owner.push("m2", 0, "alive")
	owner.seal("m2")
	wantEnding(t, other, "m2", plane.StatusComplete, "alive")
}

// sweep seals a stream behind its owner's back, as somebody who takes the owner
// for dead.
func sweep(t *testing.T, database, id, text string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), database, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	row, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	length := plane.Units(text)
	row.Row, err = s.Seal(t.Context(), plane.Seal{
		ID: id, Token: row.Token, Status: plane.StatusInterrupted, From: length, Seq: length, Text: text,
	})
	if err != nil || row.Status != plane.StatusInterrupted {
		t.Fatalf("sweep: %+v, %v", row, err)
	}
}

func TestAnOwnerThatLostItsRowSaysSoAndWritesNothing(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	cfg := node.Config{Database: database, Name: "same", Policy: eager()}
	zombie := openNode(t, cfg)
	zombie.open("m1")
	zombie.push("m1", 0, "durable")
	zombie.flush("m1")
	r := zombie.reads("m1", "")
	live := zombie.reads("m1", "plane=live")
	sweep(t, database, "m1", "durable")
	if n, err := node.Open(t.Context(), node.Config{Listen: "127.0.0.1:0", Database: database, Name: "same"}); !errors.Is(err, store.ErrNameInUse) {
		t.Errorf("a second node of the name: %v, %v", n, err)
	}
	cfg.Name = "another"
	successor := openNode(t, cfg)
	if a := zombie.do(http.MethodPost, path("m1", "append"), `{"text":" GHOST"}`); a.status != http.StatusOK {
		wantError(t, "append", a, http.StatusConflict, "fenced")
	}
	await(t, "the zombie knows", func() bool {
		a := zombie.do(http.MethodPost, path("m1", "append"), `{"text":"x"}`)
		return a.status == http.StatusConflict
	})
	if err := live.rest(); err != nil || live.end.Kind != plane.KindStale || live.end.DurableSeq != 7 {
		t.Errorf("live: %+v, %v", live.end, err)
	}
	for r.end == nil { // it is taken back to what is durable, by a second open
		event, err := r.events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := plane.ParseFrame(event.Data); f.Kind == plane.KindOpen {
			r.open, r.durable = nil, 0
		}
		if f, err := r.take(event); err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
	}
	if r.end.Status != plane.StatusInterrupted || r.end.Seq != 7 || r.pos != 7 {
		t.Errorf("a reader at %d: %+v", r.pos, r.end)
	}
	wantEnding(t, successor, "m1", plane.StatusInterrupted, "durable")
	wantEnding(t, zombie, "m1", plane.StatusInterrupted, "durable")
}
