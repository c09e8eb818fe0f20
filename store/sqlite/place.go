package sqlite

import (
	"errors"
	"fmt"
	"os"
)

var errMoved = errors.New("the file was taken away, or another is in its place: start again")

// place is the files of a database, as they were when it was opened. What is
// written to one that was deleted or moved since then is nowhere.
type place map[string]os.FileInfo

func placeOf(path string) (place, error) {
	p := make(place)
	for _, path := range []string{path, path + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p[path] = info
	}
	return p, nil
}

// check reports an error unless the files are where they were.
func (p place) check() error {
	for path, was := range p {
		if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) {
			return fmt.Errorf("%s: %w", path, errMoved)
		}
	}
	return nil
}
