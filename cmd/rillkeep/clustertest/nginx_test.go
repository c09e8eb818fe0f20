package clustertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/cmd/internal/proctest"
	"rillkeep.dev/rillkeep/store/postgres/pgtest"
)

// stock is an nginx as it is installed, but for where it is, and a proxy_pass. One more
// server is deaf to what an answer says of buffering.
const stock = `
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	gzip on;
%[2]s}
`

// nginx runs an nginx before nodes, and answers it as a node before each; deaf is before
// the first of them, too.
func nginx(c *cluster, nodes ...*node) (fronts []*node, deaf *node) {
	c.Helper()
	var servers strings.Builder
	serve := func(n *node, more string) *node {
		at := pgtest.FreeAddress(c)
		fmt.Fprintf(&servers, "\tserver { listen %s; location / { proxy_pass %s; %s} }\n", at, n.url(), more)
		return &node{c: c, name: "nginx before " + n.name, at: "http://" + at}
	}
	for _, n := range nodes {
		fronts = append(fronts, serve(n, ""))
	}
	deaf = serve(nodes[0], "proxy_ignore_headers X-Accel-Buffering; ")
	dir := c.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, stock, dir, &servers), 0o600); err != nil {
		c.Fatal(err)
	}
	p := proctest.Start(c, exec.Command(nginxBinary(c), "-p", dir, "-c", file))
	c.await("nginx", func() bool {
		if p.IsOver() {
			c.Fatalf("nginx has ended: %s", p.Err)
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(deaf.at, "http://"))
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	return fronts, deaf
}

// nginxBinary looks where .ci/tools does.
func nginxBinary(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatal("no nginx here: install it (apt-get install nginx-light, brew install nginx)")
	return ""
}
