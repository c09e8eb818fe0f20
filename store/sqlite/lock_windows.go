package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the file at path for this process alone, until it is closed; held
// reports that another has it.
func lock(path string) (file *os.File, held bool, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, new(windows.Overlapped)); err != nil {
		file.Close()
		return nil, errors.Is(err, windows.ERROR_LOCK_VIOLATION), err
	}
	return file, false, nil
}

// onlyName is not checked here: os.Stat does not say how many names a file has.
func onlyName(string) error { return nil }
