package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCoded: the same answers with gzip for whoever takes it, the second time
// too; others get them plain.
func TestCoded(t *testing.T) {
	asked := 0
	handler := coded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, r.URL.Path+" is here")
	}))
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
			t.Errorf("%+v: it came plain", c)
		}
		text, err := io.ReadAll(body)
		if err != nil || string(text) != c.path+" is here" || out.Code != c.status || out.Header().Get("Content-Type") != "text/html" {
			t.Errorf("%+v: %d, %q, %v, %v", c, out.Code, text, out.Header(), err)
		}
	}
	if asked != 3 {
		t.Errorf("%d answers were made, want 3: one is kept", asked)
	}
}
