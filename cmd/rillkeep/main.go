// Command rillkeep runs a node, and feeds, follows and looks after streams from
// a terminal. See rillkeep --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echoed is how long a signal may come again, from a terminal and from what
// wraps this process, and still be the same one.
const echoed = time.Second

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(echoed, stop) }) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
