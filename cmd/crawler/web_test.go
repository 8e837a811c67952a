package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// oddWeb is for scripts about unusual networks: a site that answers for all
// hosts, a name server, and a proxy.
type oddWeb struct {
	site  *httptest.Server
	dns   *resolvetest.Server
	proxy *httptest.Server
	done  chan struct{}

	mu      sync.Mutex
	targets map[string]bool // the targets that clients gave to the proxy
}

func newOddWeb(t *testing.T) *oddWeb {
	o := &oddWeb{done: make(chan struct{}), targets: make(map[string]bool)}
	o.site = httptest.NewServer(http.HandlerFunc(o.answer))
	o.proxy = httptest.NewServer(http.HandlerFunc(o.tunnel))
	o.dns = resolvetest.Serve(t, addressOf)
	t.Cleanup(func() {
		close(o.done)
		o.proxy.CloseClientConnections()
		o.proxy.Close()
		o.site.CloseClientConnections()
		o.site.Close()
	})
	return o
}

// setenv sets the variables of a script to the addresses of the servers.
func (o *oddWeb) setenv(env *testscript.Env) {
	env.Values[oddKey{}] = o
	odd := o.site.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(odd)
	env.Setenv("ODD", odd)
	env.Setenv("ODDPORT", port)
	env.Setenv("DNS", o.dns.Addr)
	env.Setenv("PROXY", o.proxy.Listener.Addr().String())
}

type oddKey struct{}

// addressOf returns the answer of the name server.
func addressOf(name string, _ int) []netip.Addr {
	switch name {
	case "here.test":
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	case "example.test": // an address for documentation, which no machine has
		return []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	}
	return nil
}

// oddPages are the pages with links. All hosts have them. Other pages have no links.
var oddPages = map[string]string{
	"/": `<title>odd</title><a href="/plain">1</a> <a href="/secret">2</a> <a href="/nothing">3</a>
		<img src="/logo.png"> <link rel="stylesheet" href="/style.css">`,
	"/traps": `<a href="/` + strings.Repeat("x", 2100) + `">1</a> <a href="/a/a/a/a/a">2</a> <a href="/2099/01">3</a>
		<a href="/q?` + strings.Repeat("p=1&", 40) + `q=1">4</a> <a rel="nofollow" href="/unasked">5</a>`,
	"/spellings": `<a href="/one?utm_source=a">1</a> <a href="/one?PHPSESSID=0123456789abcdef">2</a>
		<a href="/x/../one#top">3</a> <a href="/one;jsessionid=17">4</a> <a href="/two?b=1&amp;a=2">5</a> <a href="/two?a=2&amp;b=1">6</a>`,
	"/hosts": `<a href="http://s1.odd.test/plain">1</a> <a href="http://s2.odd.test/plain">2</a> <a href="http://s3.odd.test/plain">3</a>`,
}

func (o *oddWeb) answer(w http.ResponseWriter, r *http.Request) {
	page, known := oddPages[r.URL.Path]
	w.Header().Set("Content-Type", "text/html")
	switch {
	case known:
		fmt.Fprint(w, page)
	case r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "User-agent: *\nDisallow: /secret\nSitemap: /list.xml\n")
	case r.URL.Path == "/list.xml":
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, `<urlset><url><loc>http://%[1]s/listed</loc></url><url><loc>http://%[1]s/2099/01/</loc></url></urlset>`, r.Host)
	case r.URL.Path == "/logo.png":
		w.Header().Set("Content-Type", "image/png")
	case r.URL.Path == "/nothing":
		http.NotFound(w, r)
	case strings.HasPrefix(r.URL.Path, "/status/"):
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/status/"))
		w.WriteHeader(status)
	case r.URL.Path == "/app":
		fmt.Fprint(w, `<title>App</title><div id="root"></div><script type="module" src="/main.js"></script>`)
	case r.URL.Path == "/moved":
		http.Redirect(w, r, "/status/403", http.StatusFound)
	case r.URL.Path == "/mute": // until the client closes the connection
		select {
		case <-r.Context().Done():
		case <-o.done:
		}
	default:
		fmt.Fprint(w, "<p>", r.URL.Path)
	}
}

// tunnel is a proxy for the user u with the password geheim. It stores the target that a
// client gives, and connects to the site instead.
func (o *oddWeb) tunnel(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := basicAuth(r); r.Method != http.MethodConnect || user != "u" || password != "geheim" {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	o.mu.Lock()
	o.targets[r.Host] = true
	o.mu.Unlock()
	up, err := net.Dial("tcp", o.site.Listener.Addr().String())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	if _, err := io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(down, up); _ = down.Close() })
	_, _ = io.Copy(up, buffered)
	_ = up.Close()
	back.Wait()
}

func basicAuth(r *http.Request) (user, password string, ok bool) {
	asked := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return asked.BasicAuth()
}

// cmdProxied implements "proxied TARGET" in scripts. It checks that a client gave this
// target to the proxy.
func cmdProxied(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] proxied TARGET")
	}
	o := ts.Value(oddKey{}).(*oddWeb)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.targets[args[0]] == neg {
		ts.Fatalf("clients gave the proxy the targets %v; %s is among them: %t, want %t", o.targets, args[0], neg, !neg)
	}
}

// cmdAnswers implements "answers N DIR [ROBOTS]" in scripts. It checks that N records of a
// crawl name an answer in a WARC file. The number ROBOTS, which is 0 if it is left out, says
// how many answers for robots.txt the WARC files contain. They must contain N + ROBOTS answers
// in all.
func cmdAnswers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: answers N DIR [ROBOTS]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	wantRobots := 0
	if len(args) == 3 {
		wantRobots, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	pointed := 0
	for line := range strings.Lines(ts.ReadFile(filepath.Join(args[1], "pages.jsonl"))) {
		var r struct {
			URL    string
			Status int
			WARC   string
			Offset int64 `json:"warc_offset"`
		}
		ts.Check(json.Unmarshal([]byte(line), &r))
		if r.WARC == "" {
			continue
		}
		pointed++
		text, err := os.ReadFile(ts.MkAbs(filepath.Join(args[1], r.WARC)))
		ts.Check(err)
		member, err := firstMember(text[r.Offset:])
		ts.Check(err)
		for _, part := range []string{"WARC-Type: response\r\n", "WARC-Target-URI: " + r.URL + "\r\n", fmt.Sprintf("\r\n\r\nHTTP/1.1 %d ", r.Status)} {
			if !strings.Contains(member, part) {
				ts.Fatalf("the WARC record of %s does not contain %q:\n%s", r.URL, part, member)
			}
		}
	}
	files, err := filepath.Glob(ts.MkAbs(filepath.Join(args[1], "warc", "*.warc.gz")))
	ts.Check(err)
	there, robots := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		ts.Check(err)
		z, err := gzip.NewReader(bytes.NewReader(text))
		ts.Check(err)
		whole, err := io.ReadAll(z)
		ts.Check(err)
		there += bytes.Count(whole, []byte("WARC-Type: response\r\n"))
		robots += bytes.Count(whole, []byte("/robots.txt\r\n")) / 2 // the URL is in the answer and in the request
	}
	if pointed != want || there != want+robots || robots != wantRobots {
		ts.Fatalf("%d records point to answers, want %d; the WARC files have %d answers, want %d; %d answers are for robots.txt, want %d",
			pointed, want, there, want+robots, robots, wantRobots)
	}
}

// firstMember unpacks the first gzip member of b.
func firstMember(b []byte) (string, error) {
	z, err := gzip.NewReader(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return "", err
	}
	z.Multistream(false)
	member, err := io.ReadAll(z)
	return string(member), errors.Join(err, z.Close())
}
