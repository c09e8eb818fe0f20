//go:build unix

package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/store"
	"rillkeep.dev/rillkeep/store/sqlite"
)

func TestANameIsOneStoresByWhateverPathToTheFile(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]func(dir, other string) error{
		"a link to the folder":       func(dir, other string) error { return os.Symlink(dir, other) },
		"a link to the file":         linkTo("rillkeep.db", os.Symlink),
		"links to all that is there": linkTo("*", os.Symlink),
		"a link to a link": func(dir, other string) error {
			between := other + "-between"
			return errors.Join(linkTo("rillkeep.db", os.Symlink)(dir, between), linkTo("rillkeep.db", os.Symlink)(between, other))
		},
	} {
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, there first: %v", name, there), func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				dir, other := filepath.Join(root, "dir"), filepath.Join(root, "other")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				first, second := dir, other
				if there {
					shut(t, open(t, dir, sqlite.Config{}))
				} else {
					first, second = other, dir
				}
				if err := link(dir, other); err != nil {
					t.Fatal(err)
				}
				s, same := open(t, first, sqlite.Config{}), open(t, second, sqlite.Config{})
				if err := s.TakeName(t.Context(), "n1"); err != nil {
					t.Fatal(err)
				}
				if err := same.TakeName(t.Context(), "n1"); !errors.Is(err, store.ErrNameInUse) {
					t.Errorf("got %v", err)
				}
				shut(t, s)
				if err := same.TakeName(t.Context(), "n1"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// linkTo makes a folder of links to the files of another that match a pattern,
// and to the database's name even if it is not there.
func linkTo(pattern string, link func(old, new string) error) func(dir, other string) error {
	return func(dir, other string) error {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			files = []string{filepath.Join(dir, "rillkeep.db")}
		}
		errs := []error{os.MkdirAll(other, 0o700)}
		for _, file := range files {
			errs = append(errs, link(file, filepath.Join(other, filepath.Base(file))))
		}
		return errors.Join(errs...)
	}
}

func TestAFileWithASecondNameIsRefused(t *testing.T) {
	root := t.TempDir()
	dir, other := filepath.Join(root, "dir"), filepath.Join(root, "other")
	s := open(t, dir+"/", sqlite.Config{})
	if err := linkTo("rillkeep.db", os.Link)(dir, other); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), other, sqlite.Config{}); err == nil || !strings.Contains(err.Error(), "hard links") {
		t.Errorf("got %v", err)
	}
	shut(t, s)
	if err := os.Remove(filepath.Join(other, "rillkeep.db")); err != nil {
		t.Fatal(err)
	}
	open(t, dir, sqlite.Config{})
}
