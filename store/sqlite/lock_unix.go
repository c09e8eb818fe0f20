//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks a file, for its holder alone or shared with others, until it is
// unlocked or closed, or the process ends, however it does. It waits for nobody:
// held reports that another has the lock.
func tryLock(file *os.File, shared bool) (held bool, err error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err = syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), err
}

func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

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
