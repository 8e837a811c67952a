package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMain lets the test binary be the server process that crawl -dir starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

// web is six HTML pages that link to each other in every way, a picture, a
// missing page and another host.
func web() map[string]string {
	return map[string]string{
		"index.html": `<a href="a.html">1</a><a href="a.html#x">2</a><a href="/sub/b.html?">3</a><a href="none.html">4</a>` +
			`<a href="http://other.invalid/">5</a><a href="mailto:a@b">6</a><a>7</a><a href="">8</a><a href="http://[">9</a>`,
		"a.html":       `<a href="index.html"></a><a href="./sub/../sub/b.html"><a href="picture.png">`,
		"sub/b.html":   `<a href="c.html"><a href="../a.html">`,
		"sub/c.html":   `<a href="//other.invalid/x.html"><a href="d.html">`,
		"sub/d.html":   `no links`,
		"picture.png":  "\x89PNG <a href='unlinked.html'>",
		"unlinked.htm": `nobody links here`,
	}
}

func layOut(t *testing.T) string {
	dir := t.TempDir()
	for name, content := range web() {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPeersFindTheSamePages: a peer that crawls less is no measure.
func TestPeersFindTheSamePages(t *testing.T) {
	dir := layOut(t)
	for name := range peers {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-peer", name, "-dir", dir}, &out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The root and index.html are two URLs; "b.html?" is one more for a
		// crawler that keeps the empty query.
		line := regexp.MustCompile(`^peer=` + name + ` pages=[67] seconds=[0-9.]+ rate=[0-9]+ rss=[0-9.]+MiB\n$`)
		if !line.MatchString(out.String()) {
			t.Errorf("%s printed %q, want %s", name, out.String(), line)
		}
	}
}

func TestBareStopsAtTheFirstError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="a"><a href="b"><a href="c">`))
	}))
	defer server.Close()
	if pages, err := bare(t.Context(), server.URL+"/", 4); err == nil || pages != 1 {
		t.Errorf("bare with a server that hangs up: %d pages, %v, want 1 and an error", pages, err)
	}
}

func TestBareStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if _, err := bare(ctx, server.URL+"/", 4); !errors.Is(err, context.Canceled) {
		t.Errorf("bare, cancelled: %v, want %v", err, context.Canceled)
	}
}

func TestRunRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"either -dir or -url": {},
		"want bare or colly":  {"-peer", "wget", "-dir", "."},
		"unknown command":     {"measure"},
		"-workers is 0":       {"-dir", ".", "-workers", "0"},
		"want -dir":           {"layout"},
		"is not a folder":     {"serve", "-dir", "main.go"},
	} {
		err := run(t.Context(), args, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("peers %q: %v, want an error that says %q", args, err, want)
		}
	}
}
