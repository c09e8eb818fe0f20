package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClient runs the JavaScript client's own tests in Node.js: the recorded cases,
// those against a stand-in for a cluster, and those against a node, which they start
// and kill.
func TestClient(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rillkeep")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "rillkeep.dev/rillkeep/cmd/rillkeep")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a node: %v\n%s", err, out)
	}
	tests, err := filepath.Glob("client/test/*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	node := exec.CommandContext(t.Context(), "node", append([]string{"--test", "--test-reporter=spec"}, tests...)...)
	node.Env = append(os.Environ(), "RILLKEEP_PROGRAM="+program)
	if out, err := node.CombinedOutput(); err != nil {
		t.Fatalf("%v: needs Node.js 20 or newer (.ci/tools gets it)\n%s", err, out)
	}
}
