package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/node"
)

func TestListingShowsEveryPage(t *testing.T) {
	t.Parallel()
	s := openServer(t, node.Config{})
	s.command(t, "", "ls").want(t, 0, "STREAM  STATUS  LENGTH  UPDATED  ERROR\n", "")
	var want []string
	for i := range 120 { // a page has 100
		id := string(rune('a'+i/26)) + string(rune('a'+i%26))
		want = append(want, id)
		post(t, s.URL()+"/v1/streams/"+id, ``)
	}
	post(t, s.URL()+"/v1/streams/aa/append", `{"text":"a😀"}`)
	post(t, s.URL()+"/v1/streams/aa/fail", `{"error":"two\tparts\n\u001b[2Jof it"}`)
	post(t, s.URL()+"/v1/streams/ab/close", ``)

	ids := func(r result, prefix, suffix string) []string {
		var got []string
		for line := range strings.Lines(r.out) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				id, _, _ := strings.Cut(rest, suffix)
				got = append(got, id)
			}
		}
		return got
	}
	got := s.command(t, "", "ls")
	if diff := cmp.Diff(append([]string{"STREAM"}, want...), ids(got, "", " ")); diff != "" || got.code != 0 {
		t.Errorf("exit %d, streams (-want +got):\n%s", got.code, diff)
	}
	rows := strings.SplitAfter(got.out, "\n")
	if first := strings.Fields(rows[1]); len(first) < 5 || first[1] != "error" || first[2] != "3" || !strings.HasSuffix(rows[1], "  two parts  [2Jof it\n") {
		t.Errorf("%q", rows[1])
	}
	got = s.command(t, "", "ls", "--json", "--status", "streaming", "--prefix", "a")
	if diff := cmp.Diff(want[2:26], ids(got, `{"streamId":"`, `"`)); diff != "" || got.code != 0 {
		t.Errorf("exit %d, streams (-want +got):\n%s", got.code, diff)
	}
}

func TestShowFlushAndCancelAnswerForOneStream(t *testing.T) {
	t.Parallel()
	policy := plane.DefaultPolicy()
	policy.Units, policy.Interval = policy.MaxUnits, 1<<40
	s := openServer(t, node.Config{Policy: policy})
	post(t, s.URL()+"/v1/streams/m1", ``)
	post(t, s.URL()+"/v1/streams/m1/append", `{"text":"a😀 \"b\"\n"}`)
	s.command(t, "", "show", "m1").want(t, 0, "a😀 \"b\"\n", "")
	if snap := s.snapshot(t, "m1"); snap.Text != "a😀 \"b\"\n" || snap.Seq != 8 || snap.DurableSeq != 0 || snap.Status != plane.StatusStreaming {
		t.Errorf("%+v", snap)
	}
	s.command(t, "", "flush", "m1").want(t, 0, "durable through 8\n", "")
	s.command(t, "", "flush", "--json", "m1").want(t, 0, `{"seq":8,"durableSeq":8}`+"\n", "")
	s.command(t, "", "cancel", "--json", "m1").want(t, 0, `{"status":"streaming","seq":8,"durableSeq":8}`+"\n", "")
	for _, name := range []string{"show", "flush", "cancel"} {
		s.command(t, "", name, "none").want(t, exitNotFound, "", "rillkeep: stream not found\n")
	}
}
