package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"rillkeep.dev/rillkeep/cmd/internal/measure"
)

// serve runs the node until its standard input ends, which is when the process
// that measures is gone.
func serve(args []string) (err error) {
	if len(args) != 2 || args[0] != "node" {
		return errors.New("serve takes node and a file for a profile, or an empty name")
	}
	if args[1] != "" {
		profile, err := os.Create(args[1])
		if err != nil {
			return fmt.Errorf("make profile: %w", err)
		}
		defer profile.Close()
		if err := pprof.StartCPUProfile(profile); err != nil {
			return fmt.Errorf("begin profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	return measure.ServeNode("producers")
}
