//go:build unix

package pgtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Folder answers a folder with the files, which programs that this package
// starts can read and nobody else. It goes with the test.
func Folder(tb testing.TB, files map[string]string) (dir string) {
	tb.Helper()
	dir, err := os.MkdirTemp(tempDir(), "rillkeep-pg-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	paths := []string{dir}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		paths = append(paths, path)
	}
	if os.Geteuid() != 0 {
		return dir
	}
	who, err := somebody()
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// FreeAddress answers an address on loopback that nobody listens on.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
