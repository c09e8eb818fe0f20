package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/router/wire"
	"rillkeep.dev/rillkeep/store/storetest"
)

// Another node is answered here, or told who has the stream: nothing of its is sent on.
func TestANodeThatAsksForAStreamIsToldWhoHasIt(t *testing.T) {
	for name, tt := range map[string]struct {
		token  string
		shut   bool
		status int
		hint   string
	}{
		"another":                     {"n/2/1", false, http.StatusMisdirectedRequest, "n/2"},
		"another, since it drains":    {"", true, http.StatusMisdirectedRequest, "n/2"},
		"one that is gone":            {"n/7/1", false, http.StatusServiceUnavailable, ""},
		"an earlier run of this node": {"n/0/1", false, http.StatusServiceUnavailable, ""},
		"this one, though not here":   {"n/1/1", false, http.StatusServiceUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := oneOf(t, two{}) // whose ring has n/2 for all
			if tt.token != "" {
				r.cfg.Store.(*storetest.Memory).Edit("m1", func(row *storetest.Row) {
					row.Status, row.Token, row.Epoch = plane.StatusStreaming, tt.token, 1
				})
			}
			if tt.shut {
				if err := r.cfg.Actors.Shut(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			serve := map[string]echo.HandlerFunc{"open": r.open, "append": r.append, "flush": r.flush, "close": r.close, "fail": r.fail, "where": r.answerWhere}
			if tt.shut {
				serve = map[string]echo.HandlerFunc{"open": r.open}
			} else if tt.hint != "" {
				serve["attach"] = r.attached
			} else {
				delete(serve, "open") // would take it over
			}
			for route, handler := range serve {
				body := ""
				if route == "open" {
					body = `{"resume":true}`
				}
				w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
				req.Header.Set("Content-Type", "text/plain")
				c := r.echo.NewContext(req, w)
				c.Set(idKey, "m1")
				c.Set(nodeKey, "n/2")
				c.Set(grantKey, auth.AllowAll())
				if err := r.directed(handler)(c); err != nil {
					r.writeError(err, c)
				}
				if got := w.Header().Get(hostHeader); w.Code != tt.status || got != tt.hint {
					t.Errorf("%s: answered %d, hint %q", route, w.Code, got)
				}
			}
		})
	}
}

func TestAStreamWhoseOwnerIsDeadIsTakenOverByItsProducer(t *testing.T) {
	for name, token := range map[string]string{"of a node that is gone": "n/7/3", "of an earlier run": "n/0/3"} {
		r := oneOf(t, two{})
		rows := r.cfg.Store.(*storetest.Memory)
		rows.Edit("m1", func(row *storetest.Row) {
			row.Status, row.Token, row.Epoch, row.Seq, row.Chunks = plane.StatusStreaming, token, 3, 5, []plane.Chunk{{Seq: 5, Text: "text "}}
		})
		w := httptest.NewRecorder()
		c := r.echo.NewContext(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"resume":true,"producer":"app"}`)), w)
		c.Set(idKey, "m1")
		if err := r.open(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var opened wire.Opened
		if err := json.Unmarshal(w.Body.Bytes(), &opened); err != nil {
			t.Fatal(err)
		}
		want := wire.Opened{StreamID: "m1", Seq: 5, DurableSeq: 5, Epoch: 4, Status: plane.StatusStreaming, ProducerEpoch: "4.1"}
		if diff := cmp.Diff(want, opened); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if row, _ := rows.Row("m1"); row.Token != "n/1/4/5" {
			t.Errorf("%s: the row is under %q", name, row.Token)
		}
	}
}

// What another node attaches is here, or it is told where: not attached for it in turn.
func TestWhatANodeAttachesIsNotAttachedForIt(t *testing.T) {
	r := oneOf(t, two{})
	rows := r.cfg.Store.(*storetest.Memory)
	actors, err := actor.New(actor.Config{
		Plane: plane.Config{Store: rows}, Node: "n/1", Authorize: Authorize,
		Relay: &actor.Relay{Attach: func(_ context.Context, id string, _, _ int64) (actor.Source, int64, error) {
			t.Errorf("%s is looked for elsewhere", id)
			return nil, 0, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = actors.Close(context.Background()) }()
	r.cfg.Actors = actors
	rows.Edit("elsewhere", func(row *storetest.Row) {
		row.Status, row.Token, row.Epoch = plane.StatusStreaming, "n/2/1", 1
	})
	for _, id := range []string{"elsewhere", "nowhere"} {
		c := r.echo.NewContext(httptest.NewRequest(http.MethodGet, "/?plane=live", nil), httptest.NewRecorder())
		c.Set(idKey, id)
		c.Set(nodeKey, "n/2")
		c.Set(grantKey, auth.AllowAll())
		_, elsewhere := errors.AsType[*heldBy](r.attached(c))
		if elsewhere != (id == "elsewhere") {
			t.Errorf("%s: who has it is told: %v", id, elsewhere)
		}
	}
}

// Its producer was here before who gave it up, and had it adopted.
func TestAnAdoptionOfWhatIsHereIsDone(t *testing.T) {
	r := oneOf(t, two{})
	if _, err := r.cfg.Actors.Open(t.Context(), plane.Claim{ID: "m1"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"m1": http.StatusOK, "m2": http.StatusNotFound} {
		w := httptest.NewRecorder()
		c := r.echo.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), w)
		c.Set(idKey, id)
		c.Set(nodeKey, "n/2")
		if err := r.adopt(c); err != nil {
			r.writeError(err, c)
		}
		if w.Code != want {
			t.Errorf("%s: answered %d %s", id, w.Code, w.Body)
		}
	}
}

func TestTheAnswerToAnAttachSaysTheEpoch(t *testing.T) {
	r := oneOf(t, two{})
	r.cfg.Store.(*storetest.Memory).Edit("m1", func(row *storetest.Row) { row.Status, row.Epoch = plane.StatusInterrupted, 4 })
	s, err := r.cfg.Actors.Open(t.Context(), plane.Claim{ID: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c := r.echo.NewContext(httptest.NewRequest(http.MethodGet, "/?plane=live", nil), w)
	c.Set(idKey, "m1")
	c.Set(nodeKey, "n/2")
	c.Set(grantKey, auth.AllowAll())
	if err := r.attached(c); err != nil || w.Header().Get(epochHeader) != "5" {
		t.Errorf("answered in epoch %q, %v", w.Header().Get(epochHeader), err)
	}
}
