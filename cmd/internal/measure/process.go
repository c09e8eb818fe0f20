// Package measure is what the programs that measure have in common: servers in
// processes of their own, what those have used, by /proc, and medians.
package measure

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is what /proc says of one: see proc(5).
type Process struct {
	PID, Parent    int
	Used, Children time.Duration // CPU, its own and that of its children that have ended
	Memory         int64         // resident now, in bytes
}

// clockTick is the unit of /proc's CPU times on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Of reads what a process has used so far.
func Of(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, fmt.Errorf("read CPU time: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	var n [22]int
	for _, i := range []int{1, 11, 12, 13, 14, 21} { // ppid, utime, stime, cutime, cstime, rss
		if n[i], err = strconv.Atoi(fields[i]); err != nil {
			return Process{}, fmt.Errorf("read CPU time: %w", err)
		}
	}
	return Process{
		PID: pid, Parent: n[1],
		Used: time.Duration(n[11]+n[12]) * clockTick, Children: time.Duration(n[13]+n[14]) * clockTick,
		Memory: int64(n[21]) * int64(os.Getpagesize()),
	}, nil
}

// All reads what every process has used so far.
func All() (all []Process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := Of(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
