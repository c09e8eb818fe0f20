package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// commandEnv makes this test binary the command.
const commandEnv = "RILLKEEP_TEST_CHECKPOINTS"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
		return
	}
	m.Run()
}

// lines are what the command prints.
func lines(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), commandEnv+"=1"), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v printed %q: %v", args, out, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestTheLastLineIsTheRatioAtEachNumberOfStreams(t *testing.T) {
	t.Parallel()
	got := lines(t, "-length", "50ms", "-rounds", "2")
	const number = `[0-9]+(\.[0-9]+)?`
	each := regexp.MustCompile(`^(obvious|ours) +streams=(1|64|512) checkpoints/s=` + number + ` p50=` + number + `[mµ]?s p99=` + number + `[mµ]?s wal/checkpoint=` + number + `B$`)
	const ways, rounds, numbers = 2, 2, 3
	if len(got) != ways*rounds*numbers+1 {
		t.Errorf("%d lines", len(got))
	}
	last := got[len(got)-1]
	if !regexp.MustCompile(`^store ratio: 1=` + number + ` 64=` + number + ` 512=` + number + `$`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	for n, line := range got[:len(got)-1] {
		if way := []string{"obvious", "ours"}[n%ways]; !each.MatchString(line) || !strings.HasPrefix(line, way) {
			t.Errorf("line %d is %q", n, line)
		}
	}
}

// Nothing comes after the ratio.
func TestMakesBenchStoreEndsWithTheComparison(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, target, _ := strings.Cut(string(text), "\nbench-store:")
	target, _, _ = strings.Cut(target, "\n\n")
	if !strings.HasSuffix(target, "\n\t$(GO) run ./cmd/checkpoints") {
		t.Errorf("it is %s", target)
	}
}
