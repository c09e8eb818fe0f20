package mapped_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store/postgres/mapped"
)

// A node came back, under the old name or another, and finds what a run before it
// left. No row says whose it is.
func TestWithoutAHostColumnWhatIsStreamingStaysSoUntilTheApplicationEndsIt(t *testing.T) {
	t.Parallel()
	left, app := bare.open(t)
	app.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ('s', 0), ('other', 0)")
	row := claim(t, left, "s")
	appended(t, left, "s", row, "abc")
	shut(t, left)

	s := open(t, app.url, bare.tables)
	advice, err := s.Advice(t.Context())
	if err != nil || len(advice) != 1 || !strings.Contains(advice[0], "no column for host") || !strings.Contains(advice[0], "1 of its rows say streaming") {
		t.Errorf("the operator is told %q, %v", advice, err)
	}
	for _, name := range []string{"n1", "n2"} {
		if err := s.Supersede(t.Context(), name, "boot2"); err != nil {
			t.Errorf("%s starts: %v", name, err)
		}
		_, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: name + "/boot2"})
		if !errors.Is(err, plane.ErrHeld) || !strings.Contains(err.Error(), "the application ends it") {
			t.Errorf("%s opens it: %v", name, err)
		}
	}
	app.exec("UPDATE {messages} SET {status} = 'interrupted' WHERE {id} = 's'")
	if page, err := s.Text(t.Context(), "s", 0, 0); err != nil || page.Text != "abc" || page.Status != plane.StatusInterrupted {
		t.Errorf("what it ended: %+v, %v", page, err)
	}
	if advice, err := s.Advice(t.Context()); err != nil || len(advice) != 1 || strings.Contains(advice[0], "streaming now") {
		t.Errorf("the operator is told %q, %v", advice, err)
	}
}

func TestATableWithAHostColumnNeedsNoAdvice(t *testing.T) {
	t.Parallel()
	s, app := full.open(t)
	app.exec("INSERT INTO {messages} ({id}, {seq}, {status}) VALUES ('s', 0, 'streaming')")
	if advice, err := s.Advice(t.Context()); err != nil || len(advice) != 0 {
		t.Errorf("the operator is told %q, %v", advice, err)
	}
}

func TestDoubtsAreForgotten(t *testing.T) {
	t.Parallel()
	s, app := bare.open(t)
	app.exec("INSERT INTO {messages} ({id}, {seq}) VALUES ('old', 0)")
	mapped.Doubt(s, "old", time.Hour)
	if !mapped.Doubted(s, "old") {
		t.Fatal("it is not in doubt")
	}
	if row := claim(t, s, "old"); row.Status != plane.StatusStreaming { // as of any other
		t.Errorf("%+v", row)
	}
	mapped.Doubt(s, "old", time.Hour)
	for n := range mapped.MostDoubts + 10 {
		mapped.Doubt(s, fmt.Sprint(n), time.Minute-time.Duration(n)*time.Millisecond)
	}
	if n := s.Doubts(); n != mapped.MostDoubts {
		t.Errorf("%d claims are in doubt", n)
	}
	newest := fmt.Sprint(mapped.MostDoubts + 9)
	if mapped.Doubted(s, "old") || mapped.Doubted(s, "0") || !mapped.Doubted(s, newest) {
		t.Error("not the oldest were forgotten")
	}
}
