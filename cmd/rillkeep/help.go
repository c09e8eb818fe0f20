package main

import (
	"cmp"
	"context"
	"runtime/debug"
	"strings"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command to explain; all in short if none is given."`
}

// Help is printed below the flags.
func (helpCmd) Help() string { return "Examples:\n  rillkeep help\n  rillkeep help push" }

// Run prints what --help does.
func (h helpCmd) Run(ctx context.Context, con *console) error {
	return exitStatus(run(ctx, append(h.Command, "--help"), con.in, con.out, con.err))
}

type versionCmd struct{}

// Help is printed below the flags.
func (versionCmd) Help() string { return "Example:\n  rillkeep version" }

// Run prints what --version does.
func (versionCmd) Run(con *console) error { return write(con.out, version()+"\n") }

// release is the version as the linker was told it (-X main.release=…), "" if it
// was not.
var release string

// version is what the program says it is: its release, or else what the go
// command put into it of the module, and of the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "rillkeep " + cmp.Or(release, "(unknown version)")
	}
	return describe(release, info)
}

func describe(release string, info *debug.BuildInfo) string {
	words := []string{"rillkeep", cmp.Or(release, info.Main.Version, "(unknown version)")}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			words = append(words, s.Value)
		case s.Key == "vcs.modified" && s.Value == "true":
			words = append(words, "modified")
		}
	}
	return strings.Join(append(words, info.GoVersion), " ")
}
