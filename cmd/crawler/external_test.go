package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// outside are the links of the site of externalSite that lead out, with the result of each check.
// The first word of a host name, up to a dash, says how the host answers.
var outside = map[string]string{
	"http://ok.one.test/": "ok", "http://ok.two.test/": "ok", "https://untrusted.tls.test/": "broken", "http://refused.shut.test/": "broken",
	"http://gone.invalid/": "broken", "http://s404.three.test/": "broken", "http://s410.four.test/": "broken", "http://s401.five.test/": "unknown",
	"http://s403.six.test/": "unknown", "http://s429.seven.test/": "unknown", "http://s999.eight.test/": "unknown", "http://s500.nine.test/": "unknown",
	"http://nohead405.ten.test/": "ok", "http://nohead501.eleven.test/": "ok", "http://nohead404.twelve.test/": "ok", "http://hops5.red.test/": "ok",
	"http://hops6.blue.test/": "unknown", "http://loop.green.test/": "unknown", "http://wall.grey.test/": "unknown", "http://slow.black.test/": "unknown",
	"http://forbidden.white.test/": "unknown", "http://ok-a.same.test/": "ok", "http://ok-b.same.test/": "ok", "http://s404-c.same.test/": "broken",
	"http://private.brown.test/": "unknown",
}

// externalSite answers for the host www.test, which links to the URLs in outside, and for all other hosts.
type externalSite struct {
	mu   sync.Mutex
	asks map[string][]time.Time // by registrable domain
	got  map[string]int         // by method and URL
}

func (s *externalSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	domain := canon.Domain(r.Host)
	s.asks[domain] = append(s.asks[domain], time.Now())
	s.got[r.Method+" http://"+r.Host+r.URL.Path]++
	s.mu.Unlock()
	label, _, _ := strings.Cut(r.Host, ".")
	kind, _, _ := strings.Cut(label, "-")
	code, hops, head := 0, 0, r.Method == http.MethodHead
	_, _ = fmt.Sscanf(kind, "s%d", &code)
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &hops)
	switch {
	case r.URL.Path == "/robots.txt" && kind == "forbidden":
		fmt.Fprint(w, "User-agent: *\nDisallow: /\n")
	case r.URL.Path == "/robots.txt":
		http.NotFound(w, r)
	case kind == "www":
		w.Header().Set("Content-Type", "text/html")
		for url := range outside {
			fmt.Fprintf(w, "<a href=%s>%s</a> ", url, url)
		}
		fmt.Fprint(w, "<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>")
		if r.URL.Path == "/once-more" {
			fmt.Fprint(w, "<a href=http://too.many.test/>x</a>")
		}
	case code > 0:
		w.WriteHeader(code)
	case head && strings.HasPrefix(kind, "nohead"):
		_, _ = fmt.Sscanf(kind, "nohead%d", &code)
		w.WriteHeader(code)
	case strings.HasPrefix(kind, "hops"):
		_, _ = fmt.Sscanf(kind, "hops%d", &code)
		if hops < code {
			http.Redirect(w, r, fmt.Sprintf("/%d", hops+1), http.StatusFound)
		}
	case kind == "loop":
		http.Redirect(w, r, "/", http.StatusFound)
	case kind == "wall":
		w.Header().Set("Cf-Mitigated", "challenge")
		w.WriteHeader(http.StatusNotFound)
	case kind == "private": // a redirect to an address that is not public
		http.Redirect(w, r, fmt.Sprintf("http://%v/secret", r.Context().Value(http.LocalAddrContextKey)), http.StatusFound)
	case kind == "slow":
		<-r.Context().Done()
	}
}

// asked reports whether a domain got a request.
func (s *externalSite) asked(domain string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks[domain]) > 0
}

// TestExternalChecks: a crawl with --check-external, which SIGKILL ends at random moments and which then goes
// on, checks each link that leads out, in each kind of store. The result of each check is right, the books
// balance after each kill, no domain gets two requests within a second, and the pages do not count less.
func TestExternalChecks(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"dir", "redis", "postgres"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			testExternal(t, where)
		})
	}
}

func testExternal(t *testing.T, where string) {
	web := &externalSite{asks: make(map[string][]time.Time), got: make(map[string]int)}
	plain, secure := httptest.NewServer(web), httptest.NewUnstartedServer(web)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return nil })
	temp := t.TempDir()
	at := []string{"--dir", filepath.Join(temp, "c.crawl")}
	settings := []string{"--delay", "0", "--urls", "10k", "--check-external", "--max-external", "25", "--links", "--save", "all", "--header-timeout", "3s", "--lease-time", "5s",
		"--dns", names.Addr, "--connect-to", "*.shut.test=127.0.0.1:1", "--connect-to", "*.tls.test=" + secure.Listener.Addr().String(),
		"--connect-to", "*.test=" + plain.Listener.Addr().String(), "--max-pages", "3", "--quiet"}
	var redis *servers.RedisServer
	if where != "dir" {
		redis = servers.Redis(t, servers.RedisOptions{})
		at = append(at, "--redis", redis.URL(), "--name", "x")
	}
	if where == "postgres" {
		at = append(at, "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
		settings = append(settings, "--sink", "postgres")
	}
	crawler := func(args ...string) *exec.Cmd {
		cmd := exec.Command("crawler", slices.Concat(args, at)...)
		cmd.Env = append(os.Environ(), "HOME="+temp)
		return cmd
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := crawler(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	balanced := func() {
		t.Helper()
		if out := must("status", "--audit"); !strings.Contains(out, "the books balance") {
			t.Fatalf("the books do not balance:\n%s", out)
		}
	}
	run := append([]string{"crawl", "http://www.test/"}, settings...)
	kills := 4
	if testing.Short() {
		kills = 2
	}
	for range kills {
		cmd := crawler(run...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for begun := time.Now(); !web.asked("www.test") && time.Since(begun) < time.Minute; { // until the crawl exists
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(rand.N(2 * time.Second))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		balanced()
	}
	must(run...)
	balanced()

	type line struct {
		URL, Check, Outcome, WARC string
	}
	results, pages := make(map[string]string), 0
	for text := range strings.Lines(must("output", "--all-rounds")) {
		var r line
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if r.Check == "" {
			pages++
			continue
		}
		if results[r.URL] != "" || r.WARC != "" {
			t.Errorf("%s has two records, or an answer in an archive: %s", r.URL, text)
		}
		results[r.URL] = r.Check
	}
	for url, want := range outside {
		if results[url] != want {
			t.Errorf("%s is %q, want %q", url, results[url], want)
		}
	}
	if len(results) != len(outside) || pages != 3 {
		t.Errorf("%d checks and %d pages, want %d and 3", len(results), pages, len(outside))
	}
	web.mu.Lock()
	for request := range web.got {
		if strings.Contains(request, "127.0.0.1") {
			t.Errorf("a private address was requested: %s", request)
		}
	}
	for domain, asks := range web.asks {
		for i := 1; i < len(asks) && domain != "www.test"; i++ {
			// They start a second apart. On a busy machine, the server may read the first one late.
			if apart := asks[i].Sub(asks[i-1]); apart < 500*time.Millisecond {
				t.Errorf("%s got two requests within %v", domain, apart)
			}
		}
	}
	if n := web.got["HEAD http://ok.one.test/"]; n < 1 || web.got["GET http://ok.one.test/"] > 0 {
		t.Errorf("requests %v, want only HEAD for a URL that answers HEAD", web.got)
	}
	web.mu.Unlock()
	if report := must("report"); !strings.Contains(report, "25 URLs = 8 ok + 6 broken + 11 unknown + 0 queued + 0 leased") {
		t.Errorf("the report has no account of the checks:\n%s", report)
	}
	if out := must("explain", "http://s404.three.test/"); !strings.Contains(out, map[bool]string{true: "its check has the result broken", false: "; it was checked"}[where == "dir"]) {
		t.Errorf("explain does not know the check:\n%s", out)
	}
	broken := must("links", "--broken")
	for url, want := range outside {
		if strings.Contains(broken, `"target":"`+url+`"`) != (want == "broken") {
			t.Errorf("links --broken is wrong about %s, whose check is %s:\n%s", url, want, broken)
		}
	}
	if where == "postgres" { // the rebuild reads the records in Postgres
		if err := redis.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		must("rebuild")
		balanced()
	}
	// A later seed of a checked URL is crawled. Nothing is checked a second time, and the maximum still holds.
	again := slices.Clone(run)
	again[1], again[slices.Index(again, "3")] = "http://ok.one.test/", "99"
	must(append(again, "http://www.test/once-more")...)
	balanced()
	if report := must("report"); !strings.Contains(report, "25 URLs = 8 ok") || !strings.Contains(report, "max_external 1") {
		t.Errorf("the report after another page with the same links:\n%s", report)
	}
	if out := must("output", "--where", "url = 'http://ok.one.test/' and outcome = ok", "--columns", "url"); !strings.Contains(out, "ok.one.test") {
		t.Errorf("the later seed was not crawled: %s", out)
	}
}
