package site_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/bench/site"
)

// tree makes a folder with the given files, and a file outside the folder that must not
// be served.
func tree(t testing.TB, files map[string]string) string {
	parent := t.TempDir()
	dir := filepath.Join(parent, "served")
	files["../secret.html"] = "secret"
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func ask(handler http.Handler, method, target string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, target, nil))
	return recorder
}

func TestHandlerServesSite(t *testing.T) {
	dir := tree(t, map[string]string{
		"index.html": "<p>home", "a b.html": "<p>space", "doc/index.html": "<p>doc",
		"doc/x.PNG": "png", "empty/y": "?",
	})
	if err := os.Symlink(filepath.Join(dir, "doc"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	handler := site.Handler(dir)
	for _, test := range []struct {
		target      string
		status      int
		contentType string
		body        string // not compared if empty
	}{
		{"/", 200, "text/html", "<p>home"},
		{"/index.html", 200, "text/html", "<p>home"},
		{"/a%20b.html?x=1", 200, "text/html", "<p>space"},
		{"/doc/", 200, "text/html", "<p>doc"},
		{"/doc/x.PNG", 200, "image/png", "png"},
		{"/linked/index.html", 200, "text/html", "<p>doc"},
		{"/empty/y", 200, "application/octet-stream", "?"},
		{"/empty/", 404, "text/plain", ""},
		{"/index.html/", 404, "text/plain", ""},
		{"/none.html", 404, "text/plain", ""},
		{"/doc/..%2f../../secret.html", 404, "text/plain", ""},
	} {
		for range 2 { // from the file, then from memory
			got := ask(handler, "GET", test.target)
			if got.Code != test.status || got.Header().Get("Content-Type") != test.contentType || test.body != "" && got.Body.String() != test.body {
				t.Errorf("GET %s: status %d, type %q, body %q; want %d, %q, %q",
					test.target, got.Code, got.Header().Get("Content-Type"), got.Body, test.status, test.contentType, test.body)
			}
		}
	}
	if got := ask(handler, "GET", "/doc"); got.Code != 301 || got.Header().Get("Location") != "doc/" {
		t.Errorf("GET of a folder without slash: %d to %q, want 301 to doc/", got.Code, got.Header().Get("Location"))
	}
	if got := ask(handler, "HEAD", "/"); got.Code != 200 || got.Body.Len() != 0 || got.Header().Get("Content-Length") != "7" {
		t.Errorf("HEAD: status %d, body of %d bytes, Content-Length %q; want 200, 0, 7", got.Code, got.Body.Len(), got.Header().Get("Content-Length"))
	}
	if got := ask(handler, "POST", "/"); got.Code != 405 {
		t.Errorf("POST: %d, want 405", got.Code)
	}
}

type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkHandler measures how often per second the handler serves the same page.
func BenchmarkHandler(b *testing.B) {
	page := string(bytes.Repeat([]byte("<p>text "), 14<<10/8))
	handler := site.Handler(tree(b, map[string]string{"page.html": page}))
	request := httptest.NewRequest("GET", "/page.html", nil)
	writer := nowhere{http.Header{}}
	for b.Loop() {
		handler.ServeHTTP(writer, request)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
