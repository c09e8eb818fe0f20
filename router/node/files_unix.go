//go:build unix

package node

import "syscall"

// files is how many file descriptors the process may have; 0 if that is not known.
func files() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) // its type depends on the system
}
