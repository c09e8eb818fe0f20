package main

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

// process is what /proc says of one: see proc(5).
type process struct {
	pid, parent    int
	used, children time.Duration // CPU, its own and that of its children that have ended
}

// clockTick is the unit of /proc's CPU times on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, fmt.Errorf("read CPU time: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	var n [15]int
	for _, i := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if n[i], err = strconv.Atoi(fields[i]); err != nil {
			return process{}, fmt.Errorf("read CPU time: %w", err)
		}
	}
	return process{
		pid: pid, parent: n[1],
		used: time.Duration(n[11]+n[12]) * clockTick, children: time.Duration(n[13]+n[14]) * clockTick,
	}, nil
}

func processes() (all []process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
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
