package router

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rillkeep.dev/rillkeep/actor"
	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/router/auth"
	"rillkeep.dev/rillkeep/store/storetest"
)

func TestLimitsAreThoseOfTheREADME(t *testing.T) {
	want := Limits{
		AppendBytes:   1 << 20,
		BodyTime:      30 * time.Second,
		AnswerTime:    3 * time.Minute,
		StoreTime:     10 * time.Second,
		GenerateBytes: 1 << 20,
		Generations:   1_000,
		ResponseBytes: 1 << 20,
		PumpLineBytes: 1 << 20,
		Readers:       50_000,
		Snapshots:     16,
		Ping:          15 * time.Second,
		Recheck:       15 * time.Second,
		Stall:         30 * time.Second,
		DurablePoll:   250 * time.Millisecond,
		FeedPoll:      2 * time.Second,
		PageUnits:     256 << 10,
	}
	if diff := cmp.Diff(want, Limits{}.withDefaults()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if maxBody != 64<<10 || maxDemos != 32 || maxList != 999 || maxID != 256 || plane.MaxChunk != 16<<10 {
		t.Errorf("a body of %d, %d samples, %d listed, an id of %d, a chunk of %d", maxBody, maxDemos, maxList, maxID, plane.MaxChunk)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| one store call | 10 s |",
		"| readers on a node | 50,000 |",
		"| reader that takes nothing | closed after 30 s |",
		"| comment line, authorization check | every 15 s |",
		"| chunk frame | 16 KiB of text |",
		"| body of an append | 1 MiB, in 30 s |",
		"| body of any other call but pump | 64 KiB, in 30 s |",
		"| line of a pump | 1 MiB; ",
		"| body of a generate or a chat completion | 1 MiB (`Limits.GenerateBytes`), in 30 s |",
		"| generations running on a node at once | 1,000 |",
		"| response waiting for the client of a chat completion | 1 MiB, then the client is cut off |",
		"| sample responses playing at once | 32 |",
		"| following the durable plane | looks when the stream has advanced, at most every 50 ms, and by itself every 2 s; while the change feed is away every 250 ms |",
		"| page of a listing | 100, at most 999 |",
		"| snapshots being answered at once | 16 |",
		"| taking an answer that ends | 3 min |",
	} {
		if !strings.Contains(string(readme), "\n"+row) {
			t.Errorf("README has no %q", row)
		}
	}
}

func TestTokensAreCheckedAgainEverySecondToMinute(t *testing.T) {
	rows := storetest.NewMemory()
	actors, err := actor.New(actor.Config{Plane: plane.Config{Store: rows}, Node: "n1/boot", Authorize: Authorize})
	if err != nil {
		t.Fatal(err)
	}
	keyed := auth.NewVerifier(auth.Config{})
	for _, c := range []struct {
		every    time.Duration
		verifier *auth.Verifier
		ok       bool
	}{
		{0, keyed, true},
		{time.Second, keyed, true},
		{time.Minute, keyed, true},
		{time.Second - 1, keyed, false},
		{time.Minute + 1, keyed, false},
		{-time.Second, keyed, false},
		{time.Hour, nil, true}, // there is nothing to check
	} {
		cfg := Config{
			Actors: actors, Store: rows, Metrics: NewMetrics(), Verifier: c.verifier, Limits: Limits{Recheck: c.every},
		}
		if _, err := New(cfg); (err == nil) != c.ok || err != nil && !errors.Is(err, plane.ErrConfig) {
			t.Errorf("every %v, with keys %t: %v", c.every, c.verifier != nil, err)
		}
	}
}
