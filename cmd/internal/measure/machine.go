package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Machine reads what all processes together have used so far, and what the
// machine's own host took away from it.
func Machine() (used time.Duration, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read CPU time: %q", line)
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		used += time.Duration(n) * clockTick
	}
	return used, nil
}
