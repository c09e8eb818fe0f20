package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// patience bounds each wait for something that happens by itself.
const patience = time.Minute

// program is the file of rillkeep, as it is now.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the program, with the race detector where the tests have it.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rillkeep-clustertest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "rillkeep")
	args := []string{"build", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if said, err := exec.Command("go", append(args, "rillkeep.dev/rillkeep/cmd/rillkeep")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, said)
		return 1
	}
	return m.Run()
}
