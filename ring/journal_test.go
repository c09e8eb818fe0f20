package ring

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestMemberlistsLinesBecomeRecordsOfTheirLevel(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"[DEBUG] memberlist: Stream connection from=10.0.0.1", `level=DEBUG msg="memberlist: Stream connection from=10.0.0.1"`},
		{"[INFO] memberlist: Suspect x has failed", `level=INFO msg="memberlist: Suspect x has failed"`},
		{"[WARN] memberlist: Refuting", `level=WARN msg="memberlist: Refuting"`},
		{"[ERR] memberlist: Failed", `level=ERROR msg="memberlist: Failed"`},
		{"[ERR] Failed", `level=ERROR msg="memberlist: Failed"`},
		{"Err: Could not", `level=INFO msg="memberlist: Err: Could not"`},
		{`[ERR] memberlist: discarding packet with unacceptable label "x"`, `level=WARN msg="ring: refused" error="cluster name differs: discarding packet`},
		{"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message", `level=WARN msg="ring: refused" error="cluster secret differs: Decrypt`},
		{"[WARN] memberlist: ignoring alive message for 'x': settings", ""},
	} {
		var out bytes.Buffer
		j := newJournal(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		newLogger(&delegate{refused: newRefusals(j)}).Print(c.line)
		stop := make(chan struct{})
		close(stop)
		j.run(stop)
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s became %s", c.line, got)
		}
	}
}

func TestAFullJournalDropsLines(t *testing.T) {
	var out bytes.Buffer
	j := newJournal(slog.New(slog.NewTextHandler(&out, nil)))
	for range 1000 {
		j.write(slog.LevelInfo, "line")
	}
	stop := make(chan struct{})
	close(stop)
	j.run(stop)
	if n := strings.Count(out.String(), "\n"); n == 0 || n == 1000 {
		t.Errorf("%d lines", n)
	}
}
