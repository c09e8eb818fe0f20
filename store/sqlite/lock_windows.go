package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file, for its holder alone or shared with others, until it is
// unlocked or closed, or the process ends, however it does. It waits for nobody:
// held reports that another has the lock.
func tryLock(file *os.File, shared bool) (held bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION), err
}

func unlock(file *os.File) error {
	return windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, new(windows.Overlapped))
}

// onlyName is not checked here: os.Stat does not say how many names a file has.
func onlyName(string) error { return nil }
