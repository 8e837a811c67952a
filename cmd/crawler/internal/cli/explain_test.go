package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

var update = flag.Bool("update", false, "write testdata/explain.txt and "+flagsPage+" anew")

// site starts a web server whose answers depend on the path. It answers for all hosts except
// two: dead.test never answers, and dying.test answers only for robots.txt and /a.
func site(t *testing.T) (address string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "dead.test" || r.Host == "dying.test" && r.URL.Path != "/robots.txt" && r.URL.Path != "/a" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /secret\n")
		case "/missing":
			http.NotFound(w, r)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/broken":
			http.Error(w, "broken", http.StatusInternalServerError)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/busy":
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "busy", http.StatusTooManyRequests)
		case "/file.pdf":
			w.Header().Set("Content-Type", "application/pdf")
		case "/a":
			fmt.Fprint(w, `<a href="/b">1</a> <a href="/c">2</a> <a href="/d">3</a> <a href="/e">4</a> <a href="/f">5</a>`)
		case "/":
			fmt.Fprint(w, `<a href="/ok">1</a> <a href="/missing">2</a> <a href="/moved">3</a> <a href="/broken">4</a>
				<a href="/reset">5</a> <a href="/secret">6</a> <a href="/file.pdf">7</a> <a href="/excluded">8</a>
				<a href="http://10.0.0.1/private">9</a> <a href="http://other.test/">10</a>`)
		default:
			fmt.Fprint(w, `<a href="/deeper">on</a>`)
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// crawled runs a crawl of a site into a directory.
func crawled(t *testing.T, address string, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "c.crawl")
	code, _, errs := run(t, "", append([]string{"crawl", "--dir", dir, "--delay", "0", "--retries", "0", "--urls", "1000",
		"--connect-to", "*.test=" + address}, args...)...)
	if code != exitOK && code != exitNothing && code != exitHostLimit {
		t.Fatalf("crawl %q: exit code %d: %s", args, code, errs)
	}
	return dir
}

// TestExplainEachState compares the explanations of URLs in many states with a golden
// file.
func TestExplainEachState(t *testing.T) {
	t.Parallel()
	address := site(t)
	small := crawled(t, address, "--max-depth", "1", "--exclude", "/excl", "http://a.test/")
	wide := crawled(t, address, "--scope", "any", "--max-depth", "1", "--dead-after", "2", "--backoff", "1ms", "--backoff-max", "1ms",
		"http://a.test/", "http://dead.test/", "http://dying.test/a")
	first := crawled(t, address, "--max-pages", "1", "http://a.test/")
	few := crawled(t, address, "--max-per-host", "3", "http://a.test/")
	busy := crawled(t, address, "--max-time", "3s", "--retries", "3", "http://a.test/busy")
	known := filepath.Join(t.TempDir(), "known.txt")
	if err := os.WriteFile(known, []byte("http://a.test/ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	given := crawled(t, address, "--known", known, "http://a.test/")
	seeds := crawled(t, address, "--max-depth", "0", "http://a.test/")
	var got bytes.Buffer
	for _, test := range []struct{ name, dir, url string }{
		{"seed", small, "HTTP://A.test:80/#top"},
		{"ok", small, "http://a.test/ok"},
		{"404", small, "http://a.test/missing"},
		{"redirect", small, "http://a.test/moved"},
		{"5xx", small, "http://a.test/broken"},
		{"reset", small, "http://a.test/reset"},
		{"robots", small, "http://a.test/secret"},
		{"robots, never named", small, "http://a.test/secret/2"},
		{"type", small, "http://a.test/file.pdf"},
		{"excluded", small, "http://a.test/excluded"},
		{"scope", small, "http://other.test/"},
		{"depth", small, "http://a.test/deeper"},
		{"scheme", small, "ftp://a.test/"},
		{"malformed", small, "http://a..test/"},
		{"never named", small, "http://a.test/nothing?utm_source=x"},
		{"address", wide, "http://10.0.0.1/private"},
		{"host that closes connections", wide, "http://dead.test/"},
		{"before its host died", wide, "http://dying.test/b"},
		{"after its host died", wide, "http://dying.test/f"},
		{"queued", first, "http://a.test/moved"},
		{"max per host", few, "http://a.test/broken"},
		{"throttled", busy, "http://a.test/busy"},
		{"behind it", busy, "http://a.test/ok"},
		{"given as known", given, "http://a.test/ok"},
		{"seeds only", seeds, "http://a.test/missing"},
	} {
		code, out, errs := run(t, "", "explain", "--dir", test.dir, test.url)
		if code != exitOK {
			t.Fatalf("%s: exit code %d: %s", test.name, code, errs)
		}
		fmt.Fprintf(&got, "--- %s\n%s\n", test.name, steady(out))
	}
	golden := filepath.Join("testdata", "explain.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("explanations differ from %s (-update writes it anew): got\n%s", golden, &got)
	}
}

// steady replaces values that differ from run to run.
func steady(text string) string {
	for _, r := range []struct{ pattern, by string }{
		{`\b[0-9a-f]{32}\b`, "FINGERPRINT"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`\b(in|before) (\d+[hms])+(\d+ms)?\b`, "$1 DURATION"},
		{`\b(in|before) \d+ms\b`, "$1 DURATION"},
		{`p = [0-9.e+-]+`, "p = P"},
		{`fill [0-9.]+ %`, "fill F %"},
		{`(get|request): [^;\n]*`, "CAUSE"},
		{`127\.0\.0\.1:\d+`, "127.0.0.1:PORT"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return text
}

// TestExplainTestWeb explains some URLs with each outcome, after a crawl of a web with
// failing pages, redirects and dead hosts. Each explanation must have the outcome and the
// record of the URL, and the pages that led to it from a seed.
func TestExplainTestWeb(t *testing.T) {
	t.Parallel()
	hardships, err := testweb.ParseHardships("4xx,5xx,reset,redirects,robots,types,dead") // only quick hardships
	if err != nil {
		t.Fatal(err)
	}
	web, err := testweb.New(testweb.Config{Seed: 3, Hosts: 70, Pages: 400, Hardships: hardships, CrawlDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(t.Context(), listener) }()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	dir := crawled(t, listener.Addr().String(), append([]string{"--scope", "any", "--backoff", "1ms", "--backoff-max", "5ms"}, web.Seeds()...)...)
	_, out, _ := run(t, "", "output", "--dir", dir)
	asked := make(map[string]int)
	for line := range strings.Lines(out) {
		var r record.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if asked[r.Outcome]++; asked[r.Outcome] > 3 {
			continue
		}
		code, out, errs := run(t, "", "explain", "--json", "--dir", dir, r.URL)
		if code != exitOK {
			t.Fatalf("explain %s: exit code %d: %s", r.URL, code, errs)
		}
		var e crawl.Explanation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		state := string(frontier.Outcome(r.Outcome).State())
		if e.Verdict.Answer != state || !strings.HasPrefix(e.Verdict.Words, r.Outcome) || e.Record == nil || e.Record.URL != r.URL {
			t.Errorf("%s has outcome %s, but explain has verdict %q and record %+v", r.URL, r.Outcome, e.Verdict, e.Record)
		}
		seed := r.ReferrerID == ""
		if e.MoreBehind || seed != (len(e.Referrers) == 0) || !seed && !slices.Contains(web.Seeds(), e.Referrers[len(e.Referrers)-1]) {
			t.Errorf("referrers of %s are %q, want a chain that ends with a seed, or none for a seed", r.URL, e.Referrers)
		}
	}
	for _, o := range []frontier.Outcome{frontier.OK, frontier.Redirect, frontier.ClientError, frontier.Robots, frontier.Type, frontier.ServerError, frontier.Network} {
		if asked[string(o)] == 0 {
			t.Errorf("no URL has outcome %s; URLs by outcome: %v", o, asked)
		}
	}
}
