package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// said is the output of a command. Tests can wait for a text in it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

// await waits until re matches the output, and returns the match.
func (s *said) await(t *testing.T, re *regexp.Regexp) []string {
	t.Helper()
	for {
		s.mu.Lock()
		found, text := re.FindStringSubmatch(s.text.String()), s.text.String()
		s.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-s.more:
		case <-time.After(time.Minute):
			t.Fatalf("after a minute without output, no match for %s in the output %q", re, text)
		}
	}
}

// TestMetricsOfWaitingCrawl reads the metrics of a crawl that waits for seeds and has nothing
// else to do, so that no number changes. The metrics must agree with the status of the crawl
// and with its final report.
func TestMetricsOfWaitingCrawl(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "c.crawl")
	seeds, feed := io.Pipe()
	errs := &said{more: make(chan struct{}, 1)}
	ended := make(chan int, 1)
	go func() {
		ended <- Run(t.Context(), []string{"crawl", "--dir", dir, "--seeds", "-", "--delay", "0", "--retries", "0", "--max-depth", "1",
			"--admin", "0", "--pprof", "--connect-to", "*.test=" + site(t)}, seeds, io.Discard, errs)
	}()
	base := "http://" + errs.await(t, regexp.MustCompile(`metrics on http://(127\.0\.0\.1:\d+)/metrics\n`))[1]
	if _, err := io.WriteString(feed, "http://a.test/\n"); err != nil {
		t.Fatal(err)
	}
	for idle := false; !idle; {
		st := statusOf(t, dir)
		idle = st.Stats.Done+st.Stats.Failed > 1 && st.Stats.Queued+st.Stats.Leased == 0 && st.Progress.Held == 0 &&
			st.Waits != nil && st.Waits.Hosts == 0 // what hosts wait for is counted once a second
	}
	st, got := statusOf(t, dir), scrape(t, base)
	want := map[string]float64{
		`crawler_urls_found_total`: float64(st.Stats.Found), `crawler_urls_added_total`: float64(st.Stats.Added),
		`crawler_urls_seen_total`: float64(st.Stats.Seen), `crawler_pages_total`: float64(st.Stats.Pages),
		`crawler_urls{state="queued"}`: 0, `crawler_urls{state="leased"}`: 0, `crawler_urls{state="done"}`: float64(st.Stats.Done),
		`crawler_urls{state="failed"}`: float64(st.Stats.Failed), `crawler_urls_delayed`: 0, `crawler_records_total`: float64(st.Stats.Records),
		`crawler_retries_total`: float64(st.Stats.Retries), `crawler_hosts`: 0, `crawler_paused`: 0, `crawler_recovered_total`: 0,
		`crawler_promoted_total`: 0,
		`crawler_filter_keys`:    float64(st.Stats.Filter.Keys), `crawler_filter_capacity_keys`: float64(st.Stats.Filter.Capacity),
		`crawler_filter_layers`: 1, `crawler_filter_bytes`: float64(st.Stats.Filter.Bytes), `crawler_filter_false_positive_ratio`: st.Stats.Filter.FPR,
		`crawler_shadow_urls_total{verdict="new"}`: float64(st.Stats.Shadow.New), `crawler_shadow_urls_total{verdict="lost"}`: 0,
		`crawler_shadow_urls_total{verdict="forgotten"}`: 0, `crawler_requests_total{for="page"}`: float64(st.Progress.Requests),
		`crawler_requests_total{for="robots"}`: float64(st.Progress.Robots), `crawler_attempts_failed_total`: float64(st.Progress.Errors),
		`crawler_body_bytes_total`: float64(st.Progress.Bytes), `crawler_finished_total`: float64(st.Progress.Finished),
		`crawler_leases_lost_total`: 0, `crawler_slots`: float64(st.Progress.Slots), `crawler_leases{doing="waiting"}`: 0, `crawler_leases{doing="late"}`: 0,
		`crawler_leases{doing="working"}`: 0, `crawler_blocked{by="rate"}`: 0, `crawler_blocked{by="bandwidth"}`: 0, `crawler_blocked{by="store"}`: 0, `crawler_blocked{by="robots"}`: 0, `crawler_blocked{by="names"}`: 0,
	}
	if want["crawler_store_commits_total"] = got["crawler_store_commits_total"]; want["crawler_store_commits_total"] < 2 {
		t.Errorf("crawler_store_commits_total is %g, want 2 or more", got["crawler_store_commits_total"])
	}
	for reason, n := range st.Stats.Refused {
		want[fmt.Sprintf("crawler_urls_refused_total{reason=%q}", reason)] = float64(n)
	}
	for outcome, n := range st.Stats.Outcomes {
		want[fmt.Sprintf("crawler_outcomes_total{outcome=%q}", outcome)] = float64(n)
	}
	for cause, n := range st.Stats.Causes {
		want[fmt.Sprintf("crawler_errors_total{cause=%q}", cause)] = float64(n)
	}
	for name := range got {
		if strings.HasPrefix(name, "crawler_hosts_waiting{") || strings.HasPrefix(name, "crawler_limited_by{") {
			want[name] = 0
		}
	}
	answers := 0.0
	for _, class := range []string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		name := fmt.Sprintf("crawler_answers_total{status=%q}", class)
		want[name] = got[name]
		answers += got[name]
	}
	if answers != float64(st.Progress.Requests) || got[`crawler_answers_total{status="2xx"}`] == 0 {
		t.Errorf("%g answers, want one for each of %d requests", answers, st.Progress.Requests)
	}
	for _, name := range []string{"crawler_latency_seconds", "crawler_page_bytes"} {
		want[name+"_count"], want[name+"_sum"] = answers-got[`crawler_answers_total{status="none"}`], got[name+"_sum"]
		if want[name+`_bucket{le="+Inf"}`] = want[name+"_count"]; got[name+"_sum"] <= 0 {
			t.Errorf("%s_sum is %g, want more than 0", name, got[name+"_sum"])
		}
		for bucket, n := range got {
			if strings.HasPrefix(bucket, name+"_bucket{") && !strings.Contains(bucket, "Inf") {
				want[bucket] = min(n, want[name+"_count"])
			}
		}
	}
	for name, n := range got {
		if strings.HasPrefix(name, "crawler_host_errors{") && n > 0 {
			want[name] = n
		}
	}
	want[`crawler_limited_by{kind="seeds"}`], want["crawler_pause_rules"] = 1, 0
	want["crawler_exact_due"], want["crawler_exact_due_seconds"] = 0, 0
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if value, known := want[name]; !strings.HasPrefix(name, "crawler_build{") && (!known || value != got[name]) {
			t.Errorf("%s is %g, want %g (is a known metric: %t)", name, got[name], value, known)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for path, status := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/debug/pprof/goroutine": 200, "/debug/pprof/cmdline": 404, "/": 200, "/crawls/c": 200, "/other": 404,
	} {
		if response := fetch(t, base+path); response.StatusCode != status {
			t.Errorf("%s has status %d, want %d", path, response.StatusCode, status)
		}
	}
	rebound, err := http.NewRequestWithContext(t.Context(), "GET", base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "rebound.test"
	response, err := http.DefaultClient.Do(rebound)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a request for %s has status %d, want 421", rebound.Host, response.StatusCode)
	}
	_ = feed.Close()
	if code := <-ended; code != exitOK {
		t.Fatalf("crawl after its seeds have ended: exit code %d", code)
	}
	var report report.Report
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]uint64{
		`crawler_urls_found_total`: report.Books.Found, `crawler_urls_added_total`: report.Books.Added, `crawler_urls_seen_total`: report.Books.Seen,
		`crawler_urls{state="done"}`: report.Books.Done, `crawler_urls{state="failed"}`: report.Books.Failed, `crawler_pages_total`: report.Pages,
		`crawler_filter_keys`: report.Filter.Keys, `crawler_requests_total{for="page"}`: report.Run.Requests,
	} {
		if got[name] != float64(value) {
			t.Errorf("%s was %g at the end, but the report has %d", name, got[name], value)
		}
	}
	if _, err := http.Get(base + "/healthz"); err == nil {
		t.Error("after the end of the crawl, the server of --admin still answers")
	}
}

func statusOf(t *testing.T, dir string) report.Status {
	t.Helper()
	h, err := crawl.Attach(t.Context(), crawl.Location{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	st, err := h.Status(t.Context())
	if err != nil || !st.Running {
		t.Fatalf("status %+v (%v), want that of a running crawl", st, err)
	}
	return st
}

func fetch(t *testing.T, url string) *http.Response {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// scrape returns the crawler's own metrics by name and labels.
func scrape(t *testing.T, base string) map[string]float64 {
	t.Helper()
	text, err := io.ReadAll(fetch(t, base+"/metrics").Body)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(name, "crawler_") {
			continue
		}
		if got[name], err = strconv.ParseFloat(number, 64); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(string(text), "\ngo_goroutines ") {
		t.Error("the runtime's metrics are missing")
	}
	return got
}

// TestAdminOfStoppingCrawl: a crawl that is stopping is not ready, and a crawl whose
// store is closed has no metrics.
func TestAdminOfStoppingCrawl(t *testing.T) {
	t.Parallel()
	dir := crawled(t, site(t), "--max-depth", "0", "http://a.test/")
	c, err := crawl.Open(t.Context(), crawl.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{plan: &plan{options: new(options)}, crawl: c}
	handler := r.adminHandler(t.Context())
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	if w := ask("/debug/pprof/goroutine"); w.Code != 404 {
		t.Errorf("without --pprof: /debug/pprof/goroutine has status %d, want 404", w.Code)
	}
	if w := ask("/readyz"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("/readyz = %d %q, want 200 ok", w.Code, w.Body)
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	if _, err := c.Run(stopped); err != nil {
		t.Fatal(err)
	}
	if w := ask("/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "stopping: enough") {
		t.Errorf("/readyz of a stopping crawl = %d %q, want 503 with the reason", w.Code, w.Body)
	}
	if w := ask("/healthz"); w.Code != 200 {
		t.Errorf("/healthz of a stopping crawl = %d %q, want 200", w.Code, w.Body)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if w := ask("/metrics"); w.Code != 500 || !strings.Contains(w.Body.String(), frontier.ErrClosed.Error()) {
		t.Errorf("/metrics after Close = %d %q, want 500 with ErrClosed", w.Code, w.Body)
	}
}

// TestAdminHost: only requests whose Host names this server are answered.
func TestAdminHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, local, admin string
		named              []string
		served             bool
	}{
		{host: "localhost:9090", served: true}, {host: "LocalHost.", served: true},
		{host: "127.0.0.1:9090", served: true}, {host: "127.9.9.9", served: true}, {host: "[::1]:9090", served: true}, {host: "[::1]", served: true},
		{host: "rebound.test:9090"}, {host: "localhost.rebound.test"}, {host: "127.0.0.1.rebound.test"}, {host: "127.1"}, {host: ""}, {host: ":9090"},
		{host: "192.0.2.1:9090"}, {host: "192.0.2.1:9090", local: "192.0.2.1:9090", served: true}, {host: "192.0.2.2", local: "192.0.2.1:9090"},
		{host: "[2001:db8::1]:9090", local: "[2001:db8::1]:9090", served: true}, {host: "192.0.2.1", local: "[::ffff:192.0.2.1]:9090", served: true},
		{host: "[fe80::1]:9090", local: "[fe80::1%eth0]:9090", served: true},
		{host: "metrics.test", admin: "metrics.test", served: true}, {host: "other.test", admin: "metrics.test"},
		{host: "Metrics.Test:80", named: []string{"a.test", "metrics.test"}, served: true}, {host: "192.0.2.7:80", named: []string{"192.0.2.7"}, served: true},
		{host: "[2001:db8::7]:80", named: []string{"2001:db8::7"}, served: true}, {host: "b.test", named: []string{"a.test"}},
		{host: "\x1b]0;pwned\a"},
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = c.host
		if c.local != "" {
			local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		}
		w, served := httptest.NewRecorder(), false
		checkHost(append(c.named, c.admin), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(w, r)
		if served != c.served || served == (w.Code == http.StatusMisdirectedRequest) {
			t.Errorf("%+v: got served = %t, status %d", c, served, w.Code)
		}
		if text := w.Body.String(); !served && (!strings.Contains(text, "--admin-host") || strings.Contains(text, "\x1b")) {
			t.Errorf("%+v: answer %q, want --admin-host in it, and no escape sequence", c, text)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--pprof"}, "--pprof is given without --admin"}, {[]string{"--admin-host", "a.test"}, "--admin-host is given without --admin"},
		{[]string{"--admin", "0", "--admin-host", "a.test:80"}, `--admin-host is "a.test:80", want`},
		{[]string{"--admin", "0", "--admin-host", "http://a.test"}, `--admin-host is "http://a.test", want`},
	} {
		if code, _, errs := run(t, "", append([]string{"config", "--dir", t.TempDir()}, c.args...)...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, want %d and %q in stderr:\n%s", c.args, code, exitUsage, c.want, errs)
		}
	}
}

func TestAdminAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"9090": "127.0.0.1:9090", ":9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090", "[::1]:http": "[::1]:http",
		"": "", ":": "", "localhost": "", "h:99999": "", "a:b:c": "",
	} {
		if got, err := adminAddress(text); got != want || (err == nil) != (want != "") {
			t.Errorf("adminAddress(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if code, _, errs := run(t, "", "crawl", "--admin", "nowhere", "http://a.test/"); code != exitUsage || !strings.Contains(errs, "--admin is") {
		t.Errorf("--admin nowhere: exit code %d, want a usage error: %s", code, errs)
	}
}

// sampleOf returns a report.Sample of the process that crawls into dir.
func sampleOf(t *testing.T, dir string) report.Sample {
	t.Helper()
	h, err := crawl.Attach(t.Context(), crawl.Location{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
