package peer_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"rillkeep.dev/rillkeep/router/peer"
)

func TestAnAnswerWithTooLargeAHeaderIsRefusedAndHarmsNobody(t *testing.T) {
	for name, add := range map[string]func(http.Header){
		"one long value": func(h http.Header) { h.Set("X-Long", strings.Repeat("x", 100<<10)) },
		"many fields": func(h http.Header) {
			for i := range 2000 {
				h.Set(fmt.Sprint("X-", i), "x")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, b := newNetwork().pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/large" {
						add(w.Header())
					}
					hello(w, r)
				}))
				for range 3 {
					_, _, err := ask(t.Context(), c, b, get("/large"))
					wantErr(t, err, peer.ErrBroken)
					if got := asks(t, c, b, get("/")); got != "hello" {
						t.Errorf("then it answered %q", got)
					}
				}
			})
		})
	}
}
