package web_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"rillkeep.dev/rillkeep/router/web"
)

func get(tb testing.TB, method, path string, header http.Header) *http.Response {
	tb.Helper()
	r := httptest.NewRequest(method, path, nil)
	if header != nil {
		r.Header = header
	}
	w := httptest.NewRecorder()
	web.Handler().ServeHTTP(w, r)
	return w.Result()
}

func body(tb testing.TB, resp *http.Response) string {
	tb.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestFilesAreServedWithTheirTypes(t *testing.T) {
	for path, want := range map[string]string{
		"/":                       "text/html; charset=utf-8",
		"/web/app.js":             "text/javascript; charset=utf-8",
		"/web/client/rillkeep.js": "text/javascript; charset=utf-8",
		"/web/style.css":          "text/css; charset=utf-8",
		"/web/icon.svg":           "image/svg+xml",
	} {
		resp := get(t, http.MethodGet, path, nil)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: got %d, %s, want %s", path, resp.StatusCode, got, want)
		}
		text := body(t, resp)
		head := get(t, http.MethodHead, path, nil)
		if head.StatusCode != http.StatusOK || head.ContentLength != int64(len(text)) || body(t, head) != "" {
			t.Errorf("%s: HEAD answers %d, %d bytes", path, head.StatusCode, head.ContentLength)
		}
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{
		"/web", "/web/", "/web/index.html", "/index.html", "/web/static/app.js", "/static/app.js", "/web/../web.go", "/web/sample.ndjson", "//",
		"/web/client", "/web/client/", "/web/client/package.json", "/web/client/README.md", "/client/rillkeep.js",
	} {
		if resp := get(t, http.MethodGet, path, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d", path, resp.StatusCode)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		resp := get(t, method, "/", nil)
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d, allowed %q", method, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	for _, path := range []string{"/", "/web/app.js", "/web/none"} {
		h := get(t, http.MethodGet, path, nil).Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'self'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %q", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: policy %q is loose", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers are %v", path, h)
		}
	}
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	first := get(t, http.MethodGet, "/web/app.js", nil)
	etag := first.Header.Get("Etag")
	if etag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("headers are %v", first.Header)
	}
	again := get(t, http.MethodGet, "/web/app.js", http.Header{"If-None-Match": {etag}})
	if again.StatusCode != http.StatusNotModified || body(t, again) != "" {
		t.Errorf("got %d", again.StatusCode)
	}
	if other := get(t, http.MethodGet, "/web/style.css", nil).Header.Get("Etag"); other == etag {
		t.Errorf("two files share the tag %s", etag)
	}
}

// The policy would block these; a page that needs them must not be written.
func TestPageHasNothingInline(t *testing.T) {
	page := body(t, get(t, http.MethodGet, "/", nil))
	for what, form := range map[string]string{
		"an inline script":   `<script[^>]*>[^<]`,
		"a style":            `<style|\sstyle=`,
		"an event attribute": `\son[a-z]+=`,
		"a foreign address":  `(src|href|action)="(https?:)?//`,
	} {
		if found := regexp.MustCompile(form).FindString(page); found != "" {
			t.Errorf("page has %s: %s", what, found)
		}
	}
	for _, path := range []string{"/web/app.js", "/web/view.js", "/web/cluster.js", "/web/client/rillkeep.js", "/web/client/reader.js", "/web/api.js"} {
		script := body(t, get(t, http.MethodGet, path, nil))
		for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser"} {
			if strings.Contains(script, banned) {
				t.Errorf("%s uses %s", path, banned)
			}
		}
		if bytes.ContainsAny([]byte(script), "\r\t") {
			t.Errorf("%s has tabs or carriage returns", path)
		}
	}
}
