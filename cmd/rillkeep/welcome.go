package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"rillkeep.dev/rillkeep/router/node"
)

// welcome is what a server says of itself as it begins.
type welcome struct {
	at    net.Addr
	keys  bool   // tokens are needed
	table string // streams are rows of this one; "" is a table of its own
}

// print says where the server is and what to try.
func (s welcome) print(w io.Writer) error {
	host, port, _ := net.SplitHostPort(s.at.String()) // a listener's address has both
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // among others
	}
	at := net.JoinHostPort(host, port)
	program, server, token, needed := word(os.Args[0]), "", "", ""
	if at != node.DefaultListen {
		server = " --server " + word("http://"+at)
	}
	if s.keys {
		token = ` -H "Authorization: Bearer $RILLKEEP_TOKEN"`
		needed = ", with a token in RILLKEEP_TOKEN (see " + program + " token --help)"
	}
	if s.table != "" {
		needed += ", with the id of a row of " + s.table + " for m1"
	}
	return write(w, fmt.Sprintf(`Rillkeep serves on http://%[2]s

Try, in another terminal%[5]s:
  printf 'Hello, stream.' | %[1]s push%[3]s --format text m1
  %[1]s tail%[3]s m1
  curl -N%[4]s 'http://%[2]s/v1/streams/m1?from=0'
or open http://%[2]s/ in a browser.

`, program, at, server, token, needed))
}

// word returns s as one word of a shell's.
func word(s string) string {
	plain := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("/._-:@+", c)
	}
	if strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
