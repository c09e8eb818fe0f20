package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rillkeep.dev/rillkeep/plane"
	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/sqlite"
)

func TestWhatIsWrittenToAFileThatWasTakenAwayIsNotSaidToBeDurable(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(path string) error{
		"deleted":           os.Remove,
		"moved":             func(path string) error { return os.Rename(path, path+".old") },
		"its log deleted":   func(path string) error { return os.Remove(path + "-wal") },
		"another put there": func(path string) error { return replace(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "rillkeep.db")
			s := open(t, path, sqlite.Config{})
			row, err := s.Open(t.Context(), plane.Claim{ID: "s", Node: "n1/boot1"})
			if err != nil {
				t.Fatal(err)
			}
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			_, err = s.Append(t.Context(), plane.Slice{ID: "s", Token: row.Token, Seq: 3, Text: "abc"})
			if err == nil || !strings.Contains(err.Error(), "taken away") {
				t.Errorf("append: %v", err)
			}
			if _, err := s.Renew(t.Context(), store.Node{Name: "n1", Incarnation: "boot1"}, time.Minute); err == nil {
				t.Error("the lease is renewed")
			}
		})
	}
}

// replace puts a copy in a file's place, as who restores a backup does.
func replace(path string) error {
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}
