package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestHelpIsACommandToo(t *testing.T) {
	for words, flag := range map[string]string{
		"help": "--help", "help push": "push --help", "help serve": "serve --help", "help help": "help --help", "help version": "version --help",
	} {
		want := command(t.Context(), nil, strings.Fields(flag)...)
		if want.code != 0 || want.out == "" {
			t.Errorf("%s: %+v", flag, want)
		}
		command(t.Context(), nil, strings.Fields(words)...).want(t, want.code, want.out, want.err)
	}
	got := command(t.Context(), nil, "help", "psuh")
	if got.code != exitUsage || got.out != "" || !strings.Contains(got.err, `did you mean "push"`) {
		t.Errorf("%+v", got)
	}
}

func TestVersionIsPrinted(t *testing.T) {
	got := command(t.Context(), nil, "--version")
	if got.code != 0 || got.err != "" || !strings.HasPrefix(got.out, "rillkeep ") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	command(t.Context(), nil, "version").want(t, 0, got.out, "")
}

func TestVersionIsThatOfTheReleaseOrTheBuild(t *testing.T) {
	info := debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3-0.20260102030405-abcdefabcdef"}}
	commit := info
	commit.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for want, got := range map[string]string{
		"rillkeep v1.2.3-0.20260102030405-abcdefabcdef go1.26":                 describe("", &info),
		"rillkeep v1.2.3-0.20260102030405-abcdefabcdef abcdef modified go1.26": describe("", &commit),
		"rillkeep v2.0.0 abcdef modified go1.26":                               describe("v2.0.0", &commit),
		"rillkeep (unknown version) go1.26":                                    describe("", &debug.BuildInfo{GoVersion: "go1.26"}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMakeTellsTheProgramItsRelease(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "-X main.release=$(RELEASE)") {
		t.Error("it does not")
	}
	defer func(before string) { release = before }(release)
	release = "v9.8.7" // the linker finds it by this name
	if got := version(); !strings.HasPrefix(got, "rillkeep v9.8.7 ") {
		t.Errorf("%q", got)
	}
}
