package testweb

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestRawAnswers requests each answer that is written byte by byte, over a socket. The client
// must receive exactly these bytes, and after as many failures as planned those of the good answer.
func TestRawAnswers(t *testing.T) {
	w := cornerWeb(t, OddAnswers|Sitemaps)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := w.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer stop()
	answers := 0
	for _, p := range w.corners.resources {
		if p.raw == nil {
			continue
		}
		for try := range 3 {
			want := p.raw(try)
			if p.fails == 0 {
				want = p.raw(0)
			}
			if got := exchange(t, listener.Addr().String(), p); got != want || !strings.HasPrefix(got, "HTTP/1.") {
				t.Errorf("%s, request %d: %q, want %q", p.url(), try+1, got, want)
			}
			answers++
		}
	}
	if answers < 90 {
		t.Errorf("%d answers, want 90 or more", answers)
	}
}

// exchange sends a request for p and returns all that the server sends.
func exchange(t *testing.T, addr string, p *resource) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", p.path, p.host)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%s: %v", p.url(), err)
	}
	return string(answer)
}

// TestOddPagesAreLinked: each page beside an odd page is linked by it, and no page is at a path
// that only a wrong reading finds.
func TestOddPagesAreLinked(t *testing.T) {
	w := cornerWeb(t, OddAnswers|Sitemaps)
	for _, p := range w.corners.resources {
		if strings.HasPrefix(p.path, "/lost") {
			t.Errorf("%s is a page, but a correct crawl does not find it", p.url())
		}
	}
	for _, path := range []string{"/zlib", "/raw-deflate", "/listed", "/two-lines", "/plain-zstd"} {
		p := w.corners.sites["codings.odd.test"].resources[path]
		if !strings.Contains(p.rawText(), "/beside"+path) || p.packed == nil {
			t.Errorf("%s has the body %q, want a packed body with a link to /beside%s", p.url(), p.rawText(), path)
		}
	}
}
