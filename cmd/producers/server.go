package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"

	"rillkeep.dev/rillkeep/router/node"
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
	dir, err := os.MkdirTemp("", "producers")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	n, err := node.Open(context.Background(), node.Config{Listen: "127.0.0.1:0", Data: dir})
	if err != nil {
		return err
	}
	fmt.Println(n.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return n.Close()
}
