//go:build unix

package pgtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"rillkeep.dev/rillkeep/store/postgres/pgtest/server"
)

// Folder answers a folder with the files, which programs that this package
// starts can read and nobody else. It goes with the test.
func Folder(tb testing.TB, files map[string]string) (dir string) {
	tb.Helper()
	dir, err := folder(files)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func folder(files map[string]string) (_ string, err error) {
	dir, err := os.MkdirTemp(server.TempDir(), "rillkeep-pg-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	paths := []string{dir}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		paths = append(paths, path)
	}
	who, err := server.Owner()
	if err != nil || who == nil {
		return dir, err
	}
	for _, path := range paths {
		if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
			return "", err
		}
	}
	return dir, nil
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
