package pgcontract

import (
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/store/feed"
	"rillkeep.dev/rillkeep/store/feed/feedtest"
)

func testFeed(t *testing.T, open func(testing.TB) *Subject) {
	s := open(t).Store.(feedtest.Bus)
	ears := []feedtest.Ear{feedtest.Listens(t, s), feedtest.Listens(t, s)}
	want := []string{"one", "two", strings.Repeat("x", feed.MaxMessage), strings.Repeat("漢", feed.MaxMessage/3)}
	if err := s.Notify(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for _, e := range ears {
		for _, message := range want {
			if told := e.Next(t); told != message {
				t.Errorf("heard %.20s… of %d bytes", told, len(told))
			}
		}
	}
	if err := s.Notify(t.Context(), []string{"fits", strings.Repeat("x", feed.MaxMessage+1)}); err == nil {
		t.Error("a message of 8,000 bytes was sent")
	}
	for _, e := range ears {
		e.Silent(t, s) // all or none
	}
}
