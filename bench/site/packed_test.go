package site

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestPackedPages checks that clients that accept gzip get compressed answers, also the
// second time, and that other clients get the same answers uncompressed.
func TestPackedPages(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("/ is here"), 0o600); err != nil {
		t.Fatal(err)
	}
	handler := Packed(dir)
	for _, c := range []struct {
		path, accept string
		status       int
	}{{"/", "gzip", 200}, {"/", "gzip", 200}, {"/x", "br, gzip", 404}, {"/", "", 200}} {
		out, in := httptest.NewRecorder(), httptest.NewRequest("GET", c.path, nil)
		in.Header.Set("Accept-Encoding", c.accept)
		handler.ServeHTTP(out, in)
		body := io.Reader(out.Body)
		if out.Header().Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(out.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		} else if c.accept != "" {
			t.Errorf("%+v: the answer is not compressed", c)
		}
		text, err := io.ReadAll(body)
		if err != nil || string(text) != map[int]string{200: "/ is here", 404: "not found\n"}[c.status] || out.Code != c.status {
			t.Errorf("%+v: status %d, body %q, header %v, error %v", c, out.Code, text, out.Header(), err)
		}
	}
}
