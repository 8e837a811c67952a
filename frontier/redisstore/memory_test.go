package redisstore

import (
	"flag"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier"
)

var proof = flag.Bool("proof", false, "run the tests at full size")

// TestQueueMemory measures what queued URLs take of the server's memory, beside
// the filter: in long lists, and in one for each host.
func TestQueueMemory(t *testing.T) {
	const path = 39 // bytes of path and query that benchPages makes
	urls, layouts := 30_000, []int{10, 300, 10_000}
	if *proof {
		urls, layouts = 1_000_000, []int{10, 1000, 100_000}
	}
	for _, hosts := range layouts {
		t.Run(fmt.Sprintf("hosts=%d", hosts), func(t *testing.T) {
			server := servers.Redis(t, servers.RedisOptions{})
			s := openStore(t, Config{
				Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "memory",
				FilterKeys: uint64(2 * urls), Partitions: 64, Delay: NoDelay,
			})
			mustAdd(t, s, testPages("first.test", 0, 1)) // scripts and connections
			used := func() float64 {
				t.Helper()
				if err := server.Client().Do(t.Context(), "memory", "purge").Err(); err != nil {
					t.Fatal(err)
				}
				n, err := server.UsedMemory()
				if err != nil {
					t.Fatal(err)
				}
				return float64(n)
			}
			before := used()
			var batch []frontier.Item
			for n := range hosts {
				batch = append(batch, benchPages(n, 0, 1)...)
				if len(batch) >= 1000 || n == hosts-1 {
					mustAdd(t, s, batch)
					batch = batch[:0]
				}
			}
			first := used()
			const step = 100
			for n := range (urls - hosts) / step {
				mustAdd(t, s, benchPages(n%hosts, 1+n/hosts*step, step))
			}
			all := used()
			perHost, perURL := (first-before)/float64(hosts), (all-first)/float64(urls-hosts)
			t.Logf("a host with its first URL: %.0f B; each further URL: %.1f B, of which %d are path and query", perHost, perURL, path)
			if perHost > 550 && hosts > 100 { // of few, other things show
				t.Errorf("a host with a queued URL takes %.0f B, want at most 550", perHost)
			}
			if most := 1.3*path + 20; perURL > most && urls/hosts >= 100 {
				t.Errorf("a URL in a long list takes %.1f B, want at most %.1f", perURL, most)
			}
		})
	}
}
