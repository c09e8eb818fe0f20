package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// blocks are the code blocks of a section of the README, by their language.
func blocks(t *testing.T, section string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n### "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n### ")
	all := make(map[string][]string)
	for _, m := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

func TestTheReadmesOwnTablesWorkAsItSays(t *testing.T) {
	t.Parallel()
	code := blocks(t, "In your own tables")
	if len(code["sql"]) != 2 || len(code["sh"]) != 2 {
		t.Fatalf("its code is %q", code)
	}
	database := pgtest.URL(t)
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(code["sql"][0])
	ddl, serve, _ := strings.Cut(code["sh"][0], "\n")
	ddl, _, piped := strings.Cut(ddl, ` | psql "$RILLKEEP_DATABASE"`)
	if !piped {
		t.Fatalf("the DDL goes nowhere: %s", ddl)
	}
	printed := shell(t, ddl)
	if printed.Ended(t) != 0 {
		t.Fatal("no DDL")
	}
	exec(printed.Out.String())

	node := shell(t, "export RILLKEEP_LISTEN=127.0.0.1:0 RILLKEEP_NAME=n1 RILLKEEP_DATABASE="+word(database)+"\nexec "+serve)
	node.Printed(t, "in a browser.")
	if !strings.Contains(node.Out.String(), "with the id of a row of message for m1") {
		t.Errorf("printed %q", node.Out)
	}
	server := "export RILLKEEP_SERVER=" + address.FindStringSubmatch(node.Out.String())[1] + "\n"
	if early := shell(t, server+code["sh"][1]); early.Ended(t) != exitNotFound {
		t.Error("a stream without a row")
	}
	exec(code["sql"][1])
	if push := shell(t, server+code["sh"][1]); push.Ended(t) != 0 {
		t.Error("push")
	}
	var content, status, chat string
	var seq int
	err = db.QueryRow(t.Context(), "SELECT content, status, chat, seq FROM message WHERE id = 'm1'").Scan(&content, &status, &chat, &seq)
	if err != nil || content != "Hello, stream." || status != "complete" || chat != "chat-17" || seq != 14 {
		t.Errorf("the row: %q, %s, %s, %d (%v)", content, status, chat, seq, err)
	}
	list := shell(t, server+"rillkeep ls")
	if list.Ended(t) != 0 || !regexp.MustCompile(`m1 +complete +14 +-`).MatchString(list.Out.String()) {
		t.Errorf("listed %q", list.Out)
	}
	node.Signal(t, syscall.SIGTERM)
	if code := node.Ended(t); code != 0 {
		t.Errorf("serve: exit %d", code)
	}
}

func TestDDLAndServeRefuseNamesThatAreNone(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"ddl"}, "no table is named for chunks"},
		{[]string{"ddl", "--chunks", `a"b`}, "a name with a quotation mark"},
		{[]string{"ddl", "--chunks", "c", "--table", `a"b`}, "a name with a quotation mark"},
		{[]string{"ddl", "--chunks", "c", "--table", "c"}, "give chunks a table of their own"},
		{[]string{"ddl", "--chunks", "c", "--chunk-columns", "host=h"}, `"host" is no role of a column; the roles are id, stream, seq, text`},
		{[]string{"ddl", "--chunks", "c", "--chunk-columns", "text="}, "a chunk's text has a column without a name"},
		{[]string{"ddl", "--chunks", "c", "--columns", "host=h"}, "no table is named for messages"},
		{[]string{"serve", "--columns", "text=t"}, `"text" is no role of a column; the roles are id, body, status, seq, host, cancel, error`},
		{[]string{"serve", "--listen", "127.0.0.1:0", "--chunks", "c"}, "a postgres:// URL"},
		{[]string{"serve", "--listen", "127.0.0.1:0", "--columns", "host=h"}, "a postgres:// URL"},
	} {
		got := command(t.Context(), nil, tt.args...)
		if got.code != exitFailure || got.out != "" || !strings.Contains(got.err, tt.want) {
			t.Errorf("%v: %+v, want %q", tt.args, got, tt.want)
		}
	}
}
