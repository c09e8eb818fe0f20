// Package web is the page that a node serves at /: plain ES modules, embedded,
// that follow streams by the public API alone, by means of the JavaScript client
// in client; and the sample response that the page can have played.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static client/*.js
var files embed.FS

// policy forbids the page everything but its own files and its own node's API:
// no inline script or style, no markup made of text, no frames.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are the kinds of files there are; the machine's own table of
// types plays no part.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

type file struct {
	body []byte
	kind string
	etag string
}

// Handler serves the page at / and the files it is made of under /web/, the
// client under /web/client/. Every
// answer carries the security headers; a file is kept by the browser and asked
// about each time, so that a page never runs with the script of an older node.
func Handler() http.Handler {
	pages := make(map[string]file)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		pages[address(name)] = file{body, contentTypes[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, pages) })
}

// address is where a file is served.
func address(name string) string {
	if name == "static/index.html" {
		return "/"
	}
	return "/web/" + strings.TrimPrefix(name, "static/")
}

func serve(w http.ResponseWriter, r *http.Request, pages map[string]file) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	f, ok := pages[r.URL.Path]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", f.kind)
	h.Set("Etag", f.etag)
	http.ServeContent(w, r, strings.TrimPrefix(r.URL.Path, "/web/"), time.Time{}, bytes.NewReader(f.body))
}
