package fetcher_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// rawServer answers requests with bytes. It closes each connection after one answer.
type rawServer struct {
	addr string
	mu   sync.Mutex
	asks map[string]int
}

func newRawServer(t *testing.T, answer func(path string, n int) string) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{addr: l.Addr().String(), asks: make(map[string]int)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				s.mu.Lock()
				s.asks[request.URL.Path]++
				n := s.asks[request.URL.Path]
				s.mu.Unlock()
				_, _ = io.WriteString(conn, answer(request.URL.Path, n))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return s
}

func (s *rawServer) asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[path]
}

// crawl crawls a.test, which the server is.
func (s *rawServer) crawl(t *testing.T, seeds ...string) *world {
	t.Helper()
	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Millisecond})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{ConnectTo: []get.Rule{connectTo(t, "*="+s.addr)}})
	cfg.Politeness = impatient(time.Millisecond)
	w.crawl(cfg, seeds...)
	return w
}

const rawPage = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"

func rawAnswer(body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", rawPage, len(body), body)
}

// TestBodyEndsEarly: a page whose body ends early is requested once more. If the second body
// ends early, too, what arrived is kept, and its links are read. Ten such pages in a row do not
// make the host dead.
func TestBodyEndsEarly(t *testing.T) {
	const body = "<title>seen</title><a href=/next>x</a>"
	cut := map[string]string{
		"/length": rawPage + "Content-Length: 9999\r\n\r\n" + body,
		"/chunk":  rawPage + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\nbad\r\n", len(body), body),
		"/last":   rawPage + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(body), body),
	}
	var links []string
	for i := range 10 {
		links = append(links, fmt.Sprintf("<a href=/length/%d>x</a>", i))
	}
	s := newRawServer(t, func(path string, n int) string {
		switch {
		case path == "/robots.txt":
			return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		case path == "/once" && n == 1:
			return cut["/length"]
		case path == "/next" || path == "/once":
			return rawAnswer("<title>whole</title>")
		case path == "/":
			return rawAnswer(strings.Join(append(links, "<a href=/chunk>x</a><a href=/last>x</a><a href=/once>x</a>"), ""))
		case strings.HasPrefix(path, "/length"):
			return cut["/length"]
		}
		return cut[path]
	})
	w := s.crawl(t, "http://a.test/")
	for _, path := range []string{"/length/0", "/length/9", "/chunk", "/last"} {
		r := w.sink.recordOf(t, "http://a.test"+path)
		if r.Outcome != string(frontier.OK) || r.Title != "seen" || !slices.Contains(r.Cut, "body") || r.Truncated ||
			!strings.HasPrefix(r.Error, "the body ends early") || r.LinksFound != 1 || r.Attempts != 2 {
			t.Errorf("%s: %+v", path, r)
		}
		if n := s.asked(path); n != 2 {
			t.Errorf("%s: %d requests, want 2", path, n)
		}
	}
	if r := w.sink.recordOf(t, "http://a.test/once"); r.Title != "whole" || r.Cut != nil || r.Error != "" || s.asked("/once") != 2 {
		t.Errorf("/once: %+v, %d requests", r, s.asked("/once"))
	}
	if r := w.sink.recordOf(t, "http://a.test/next"); r.Title != "whole" || s.asked("/next") != 1 {
		t.Errorf("/next: %+v", r)
	}
}

// TestDiscardedAnswers: an answer that contradicts itself is requested once, and does not make
// the host dead.
func TestDiscardedAnswers(t *testing.T) {
	var links []string
	for i := range 10 {
		links = append(links, fmt.Sprintf("<a href=/bad/%d>x</a>", i))
	}
	s := newRawServer(t, func(path string, _ int) string {
		switch {
		case path == "/robots.txt":
			return "HTTP/1.1 200 OK\r\nX[0]: y\r\n: z\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\nUser-agent: *\nDisallow: /d\n"
		case path == "/":
			return rawAnswer(strings.Join(append(links, "<a href=/good>x</a><a href=/d>x</a>"), ""))
		case path == "/good":
			return rawAnswer("<title>good</title>")
		}
		return rawPage + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello"
	})
	w := s.crawl(t, "http://a.test/")
	for i := range 10 {
		path := fmt.Sprintf("/bad/%d", i)
		r := w.sink.recordOf(t, "http://a.test"+path)
		if r.Outcome != string(frontier.Network) || r.Attempts != 1 || !strings.Contains(r.Error, "Content-Length") || s.asked(path) != 1 {
			t.Errorf("%s: %+v, %d requests, want network after one", path, r, s.asked(path))
		}
	}
	if r := w.sink.recordOf(t, "http://a.test/good"); r.Title != "good" {
		t.Errorf("/good: %+v", r)
	}
	if r := w.sink.recordOf(t, "http://a.test/d"); r.Outcome != string(frontier.Robots) {
		t.Errorf("/d: %+v, want the outcome robots", r)
	}
}

// TestCodingOutcome: a page that cannot be unpacked is finished with the outcome coding.
func TestCodingOutcome(t *testing.T) {
	w := newWorld(t, pages(map[string]reply{"http://a.test/": {
		contents: "text/html", body: "\x1f\x9d\x90\x00\x01\x02", header: map[string]string{"Content-Encoding": "compress"}}}))
	w.crawl(w.config(), "http://a.test/")
	r := w.sink.recordOf(t, "http://a.test/")
	if r.Outcome != string(frontier.Coding) || r.Attempts != 1 || r.Bytes != 0 || !strings.Contains(r.Error, "content coding") {
		t.Errorf("%+v, want the outcome coding after one attempt", r)
	}
	if n := w.wire.count("http://a.test/"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
