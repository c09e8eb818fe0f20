//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the file at path for this process alone, until it is closed; held
// reports that another has it.
func lock(path string) (file *os.File, held bool, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, errors.Is(err, syscall.EWOULDBLOCK), err
	}
	return file, false, nil
}
