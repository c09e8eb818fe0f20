package sqlite

import (
	"errors"
	"os"
	"time"
)

// Files beside the database, which hold nothing: they are there to be locked.
const (
	useFile  = ".lock" // shared by all who have the database open; a release before this kind of sharing has it alone
	turnFile = ".turn" // the next who writes has it
	nameFile = ".name-"
)

// lockPoll is how often somebody looks again for a lock.
const lockPoll = 500 * time.Microsecond

// lock opens the file at path, which is made if there is none, and locks it.
func lock(path string, shared bool) (file *os.File, held bool, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if held, err := tryLock(file, shared); err != nil {
		file.Close()
		return nil, held, err
	}
	return file, false, nil
}

// turn makes processes that write take turns. SQLite's own lock goes to whoever
// looks at the right moment, which is as a rule the one who just had it. Who has
// the turn is the next to have that lock: the one who has it now must queue up
// first.
type turn struct{ file *os.File }

func newTurn(path string) (turn, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return turn{file}, err
}

// take waits for the turn, and answers how to give it up. It is about fairness
// alone: who does not get it in time, since a process that has it was stopped, goes
// on without.
func (t turn) take(patience time.Duration) (leave func()) {
	for began := time.Now(); ; <-time.After(lockPoll) {
		held, err := tryLock(t.file, false)
		switch {
		case err == nil:
			return func() { _ = unlock(t.file) } // closing does it, too
		case !held, time.Since(began) > patience:
			return func() {}
		}
	}
}

func (t turn) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// closeAll closes files, and with them lets go of their locks.
func closeAll(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
