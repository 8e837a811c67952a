package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimitOfLinkedHosts: by default, a host that no seed has gets 100,000 URLs, and the host of a
// seed has no limit. The run names the full host and has an exit code of its own, and explain says
// why a URL was refused. A seed lifts the limit of its host.
func TestLimitOfLinkedHosts(t *testing.T) {
	t.Parallel()
	pages := make(map[string][]byte)
	for seed := range 4 {
		var page []byte
		for n := range 30_000 {
			page = fmt.Appendf(page, "<a href=/%d/%d>a</a><a href=//b.test/%d/%d>b</a>", seed, n, seed, n)
		}
		pages[fmt.Sprintf("/seed%d", seed)] = page
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(pages[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "c.crawl")
	// The pages are those of the seeds, however long these take: the linked host does not answer, and no lease ends.
	place := []string{"--dir", dir, "--connect-to", "b.test=" + refusedPort(t), "--connect-to", "*.test=" + server.Listener.Addr().String()}
	code, _, errs := run(t, "", append(place, "crawl", "--scope", "any", "--delay", "0", "--urls", "1M", "--max-pages", "4", "--timeout", "20m",
		"http://a.test/seed0", "http://a.test/seed1", "http://a.test/seed2", "http://a.test/seed3")...)
	const added = 4 + 4*30_000 + 100_000
	for _, want := range []string{
		fmt.Sprintf("found       240,004 = %d,%03d added + 0 seen + 20,000 refused", added/1000, added%1000),
		"refused     max_per_host 20,000", "full hosts  b.test (20,000 URLs refused)", "--max-per-host is reached: b.test",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("the run does not say %q:\n%s", want, errs)
		}
	}
	if code != exitHostLimit {
		t.Errorf("the exit code is %d, want %d", code, exitHostLimit)
	}
	explain := func(url, want string) {
		t.Helper()
		if _, out, errs := run(t, "", "explain", "--dir", dir, url); !strings.Contains(out, want) {
			t.Errorf("explain %s does not say %q:\n%s%s", url, want, out, errs)
		}
	}
	const refused = "refused: max_per_host: 100,000 URLs of its host so far, at most 100,000 are queued of a host that no seed has"
	explain("http://b.test/new", refused)
	explain("http://a.test/new", "would be queued")
	if code, _, errs := run(t, "", "seed", "--dir", dir, "http://b.test/seed4"); code != exitOK {
		t.Fatalf("seed: exit code %d: %s", code, errs)
	}
	explain("http://b.test/new", "would be queued")
}
