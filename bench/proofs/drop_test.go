package proofs

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestDropWhileWorkersRun drops 10⁵ URLs of hosts that are not due while eight workers run. Afterwards the crawl has
// nothing left, and the workers end.
func TestDropWhileWorkersRun(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>a page")
	}))
	t.Cleanup(web.Close)
	urls, hosts := sized(2000, 100_000), sized(20, 200)
	var list strings.Builder
	for i := range urls {
		fmt.Fprintf(&list, "http://h%d.test/%d\n", i%hosts, i)
	}
	name := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(name, []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 9)), "--partitions", strconv.Itoa(sized(8, 256)), "--urls", "200000",
		"--robots", "ignore", "--delay", "1h", "--allow-private", "--connect-to", "*="+web.Listener.Addr().String())
	create := slices.Concat([]string{"crawl", "--dir", filepath.Join(m.workersDir, "first"), "--max-time", "1ms"}, m.flags, []string{"http://h0.test/"})
	for _, args := range [][]string{create, {"seed", "--seeds", name}} {
		if e := m.ask(args...); e.code != 0 {
			t.Fatalf("crawler %s: exit code %d\n%s", args[0], e.code, e.stderr)
		}
	}
	m.trouble = func() error {
		time.Sleep(2 * time.Second) // the workers have joined, and hosts have got their first request
		begun := time.Now()
		for m.stats().Queued > 0 { // a host that a worker has at this moment is left to the worker, or to a repeat
			if e := m.ask("drop", "--host", "*.test", "--dir", m.workersDir); e.code != 0 {
				return fmt.Errorf("crawler drop: exit code %d\n%s", e.code, e.stderr)
			}
		}
		figure(t, "dropped", "after %v", time.Since(begun).Round(time.Millisecond))
		return nil
	}
	timed(t, func() { m.run(8) })
	stats := m.stats()
	dropped, pages := stats.Outcomes[frontier.Dropped], stats.Pages
	figure(t, "outcomes", "%d dropped, %d pages", dropped, pages)
	if dropped+pages != stats.Added || pages > uint64(hosts) || stats.Queued+stats.Leased != 0 || stats.Failed != dropped {
		t.Errorf("%d dropped and %d pages of %d URLs; %d queued, %d leased", dropped, pages, stats.Added, stats.Queued, stats.Leased)
	}
	if n := strings.Count(string(m.export()), `"outcome":"dropped"`); uint64(n) != dropped {
		t.Errorf("%d records of dropped URLs, want %d", n, dropped)
	}
	if audit := m.audit(); audit.code != 0 || audit.lost != 0 {
		t.Errorf("the audit has exit code %d and faults in %q:\n%s", audit.code, audit.faults, audit.text)
	}
}
