package fetcher_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// TestDomainRate crawls 200 hosts of a domain, of three pages each, beside a host of another domain.
func TestDomainRate(t *testing.T) {
	for name, c := range map[string]struct {
		delay time.Duration
		rate  float64
		site  string
		want  float64 // requests per second to the domain
	}{
		"four":                   {time.Second, 4, "a.test", 4},
		"less than one host":     {time.Second, 0.1, "a.test", 1},
		"a short delay":          {100 * time.Millisecond, 4, "a.test", 10},
		"a long delay":           {8 * time.Second, 4, "a.test", 4},
		"no limit":               {time.Second, 0, "a.test", 400},
		"a platform":             {time.Second, 4, "tumblr.com", 400},
		"another rate for hosts": {time.Second, 0, "own.test", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg config
				w := newWorldOf(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
					if strings.HasSuffix(url, "/robots.txt") {
						return status(404), true
					}
					if r.URL.Host == "other.test" {
						var n int
						_, _ = fmt.Sscanf(url, "http://other.test/%d", &n)
						return links(fmt.Sprintf("/%d", min(n+1, 20))), true
					}
					return links("/1", "/2"), true
				}}, frontiertest.MemoryConfig{Delay: c.delay, Policy: func() *policy.Policy { return &cfg.Policy }})
				cfg = w.config()
				cfg.Politeness.Delay, cfg.Politeness.LatencyFactor, cfg.DomainRate = c.delay, 0, c.rate
				two := 2.0
				cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "*.own.test", DomainRate: &two})
				var seeds []string
				for n := range 200 {
					seeds = append(seeds, fmt.Sprintf("http://h%d.%s/", n, c.site))
				}
				begun := time.Now()
				w.crawl(cfg, append(seeds, "http://other.test/0")...)

				var starts []time.Time
				var other time.Duration
				for _, call := range w.wire.log() {
					if call.host == "other.test" {
						other = max(other, call.start.Sub(begun))
					} else {
						starts = append(starts, call.start)
					}
				}
				if len(starts) != 800 {
					t.Errorf("%d requests to the domain, want 800", len(starts))
				}
				// In a window of any length, each host that has a place begins with a request.
				window := 10 * c.delay
				most := int(c.want*window.Seconds() + max(c.want*c.delay.Seconds(), 1) + 1e-9)
				for i := range starts {
					n := 0
					for _, at := range starts[i:] {
						if at.Sub(starts[i]) < window {
							n++
						}
					}
					if n > most {
						t.Fatalf("%d requests in %v, want at most %d", n, window, most)
					}
				}
				if took := starts[len(starts)-1].Sub(begun).Seconds(); c.want < 400 && took > 1.3*800/c.want+10 {
					t.Errorf("the domain took %.0f s, want about %.0f s", took, 800/c.want)
				}
				if limit := 22*c.delay + 10*time.Second; other > limit {
					t.Errorf("the other host took %v, want at most %v", other, limit)
				}
			})
		})
	}
}
