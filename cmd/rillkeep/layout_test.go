package main_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "rillkeep.dev/rillkeep/"

// mayImport says which of our folders a folder's packages may import, beside
// their own folder. What is not named may import none.
var mayImport = map[string][]string{
	"plane":  nil,                                                  // no network, no SQL
	"ring":   nil,                                                  // membership and hashing alone
	"store":  {"plane"},                                            // implements what plane defines
	"actor":  {"plane"},                                            // decides nothing about HTTP
	"router": {"actor", "plane", "ring", "store"},                  // HTTP; router/node composes
	"sim":    {"actor", "plane", "ring", "router", "store"},        // drives whole nodes
	"cmd":    {"actor", "plane", "ring", "router", "sim", "store"}, // shells
}

// onlyIn says where a library may be imported, so that replacing it is one
// folder's work.
var onlyIn = map[string][]string{
	"github.com/labstack/echo/":        {"router"},
	"github.com/jackc/pgx/":            {"store", "cmd/checkpoints"},
	"modernc.org/sqlite":               {"store"},
	"github.com/hashicorp/memberlist":  {"ring"},
	"github.com/buraksezer/consistent": {"ring"},
	"github.com/alecthomas/kong":       {"cmd"},
}

// standard says which folders may import a part of the standard library: the
// others do without, so that plane and actor know neither network nor files, HTTP
// is the router's, and PostgreSQL is spoken to without database/sql.
var standard = map[string][]string{
	"net":          {"router", "ring", "cmd", "store/postgres/pgtest"},
	"net/http":     {"router", "cmd/fanout", "cmd/relay", "cmd/producers", "cmd/internal/load", "cmd/rillkeep/internal/dev"}, // bare servers, load on servers, and a front
	"database/sql": {"store/sqlite", "store/internal/rows"},
	"os":           {"router", "ring/ringtest", "actor", "store", "sim", "cmd"}, // ringtest and actor for the error of a deadline
}

// within reports whether a package lies in one of the folders.
func within(pkg string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(pkg+"/", folder+"/") })
}

func TestPackagesImportInOneDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		folder, _, _ := strings.Cut(pkg, "/")
		allowed, known := mayImport[folder]
		if !known {
			t.Errorf("%s is in a folder that has no place in the layout", fields[0])
		}
		for _, imported := range fields[1:] {
			if ours, is := strings.CutPrefix(imported, module); is {
				to, _, _ := strings.Cut(ours, "/")
				if to != folder && !slices.Contains(allowed, to) {
					t.Errorf("%s imports %s", fields[0], imported)
				}
			}
			if homes, limited := standard[imported]; limited && !within(pkg, homes) {
				t.Errorf("%s imports %s, which belongs in %s", fields[0], imported, strings.Join(homes, ", "))
			}
			for library, homes := range onlyIn {
				if strings.HasPrefix(imported, library) && !within(pkg, homes) {
					t.Errorf("%s imports %s, which belongs in %s", fields[0], imported, strings.Join(homes, ", "))
				}
			}
		}
	}
}
