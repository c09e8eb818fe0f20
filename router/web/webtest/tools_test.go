package webtest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a folder to be all of a PATH, with these programs, each a shell
// script, beside what .ci/tools itself runs.
func machine(t *testing.T, programs map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"sh", "id", "env", "true", "dirname", "readlink", "chmod", "cmp", "cp", "mkdir"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{"node": ""}
	maps.Copy(all, programs)
	for name, script := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An apt-get that has one package, with the program of that name.
func aptGet(has string) string {
	return `for last; do :; done
[ "$1" = update ] && exit 0
[ "$last" = ` + has + ` ] || { echo "E: Unable to locate package $last" >&2; exit 100; }
echo '#!/bin/sh' >"${0%/*}/$last"
chmod +x "${0%/*}/$last"`
}

// checkout is a folder with .ci/tools and what it looks at, and OpenAI's client
// installed if that is so. It returns the script.
func checkout(t *testing.T, installed bool) string {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("../../../.ci/tools")
	if err != nil {
		t.Fatal(err)
	}
	const client = "router/node/testdata/openai"
	files := map[string]string{".ci/tools": string(script), client + "/package-lock.json": "{}"}
	if installed {
		files[client+"/node_modules/.installed"] = "{}"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, ".ci/tools")
}

func TestToolsGetWhatIsMissingOrSayWhatToInstall(t *testing.T) {
	t.Parallel()
	type programs = map[string]string
	tests := map[string]struct {
		has  programs
		ok   bool
		says string // of its last line
	}{
		"no browser":                  {nil, false, "the tests need chromium: install"},
		"one that does not run":       {programs{"chromium-browser": "exit 1"}, false, "the tests need chromium: install"},
		"Debian":                      {programs{"apt-get": aptGet("chromium"), "sudo": `shift; exec "$@"`}, true, "installing chromium"},
		"Ubuntu":                      {programs{"apt-get": aptGet("chromium-browser"), "sudo": `shift; exec "$@"`}, true, "installing chromium-browser"},
		"a Node.js that is too old":   {programs{"chromium": "", "node": "exit 1"}, false, "the tests need Node.js 20 or newer with npm: install"},
		"Node.js of Debian's":         {programs{"chromium": "", "node": "exec nodejs", "apt-get": aptGet("nodejs"), "sudo": `shift; exec "$@"`}, true, "installing nodejs"},
		"OpenAI's client":             {programs{"chromium": "", "npm": "mkdir node_modules"}, true, "installing OpenAI's client"},
		"OpenAI's client without npm": {programs{"chromium": ""}, false, "the tests need Node.js 20 or newer with npm: install"},
		"a package that is not there": {programs{"apt-get": aptGet("none"), "sudo": `shift; exec "$@"`}, false, "the tests need chromium: install"},
	}
	for _, name := range names {
		tests[name] = struct {
			has  programs
			ok   bool
			says string
		}{programs{name: ""}, true, ""}
	}
	for name, tt := range tests {
		dir := machine(t, tt.has)
		cmd := exec.CommandContext(t.Context(), "/bin/sh", checkout(t, !strings.HasPrefix(name, "OpenAI's client")))
		cmd.Env = []string{"PATH=" + dir, "RILLKEEP_TEST_POSTGRES=postgres://127.0.0.1/x"}
		said, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		if last := lines[len(lines)-1]; (err == nil) != tt.ok || !strings.HasPrefix(last, tt.says) || tt.says == "" && last != "" {
			t.Errorf("%s: %v, said %q", name, err, said)
		}
	}
}
