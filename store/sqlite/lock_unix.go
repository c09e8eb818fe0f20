//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
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

// onlyName reports an error if the file at path has other names. It is not
// opened for that: closing it would end this process's SQLite locks of it.
func onlyName(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return fmt.Errorf("the file has %d names (hard links), and may have one", stat.Nlink)
	}
	return nil
}
