package redisstore

import (
	"flag"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var proof = flag.Bool("proof", false, "run the tests at full size")

// TestQueueMemory measures how much memory the server needs for the first URL of a host,
// and for each further URL, in short and in long lists. The memory of the filter does
// not count.
func TestQueueMemory(t *testing.T) {
	const path = 39 // bytes of path and query that benchPages makes
	urls, layouts := 30_000, []int{10, 300, 10_000}
	if *proof {
		urls, layouts = 1_000_000, []int{10, 1000, 100_000}
	}
	for _, hosts := range layouts {
		t.Run(fmt.Sprintf("hosts=%d", hosts), func(t *testing.T) {
			server := servers.Redis(t, servers.RedisOptions{})
			cfg := Config{
				Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "memory",
				Capacity: uint64(2 * urls), Partitions: 64,
			}
			before := usedAfter(t, server, cfg, testPages("first.test", 0, 1))
			var pages []frontier.Offer
			for n := range hosts {
				pages = append(pages, benchPages(n, 0, 1)...)
			}
			first := usedAfter(t, server, cfg, pages)
			pages = pages[:0]
			for n := range hosts {
				pages = append(pages, benchPages(n, 1, urls/hosts-1)...)
			}
			all := usedAfter(t, server, cfg, pages)
			perHost, perURL := (first-before)/float64(hosts), (all-first)/float64(len(pages))
			t.Logf("a host with its first URL: %.0f B; each further URL: %.1f B, of which %d are path and query", perHost, perURL, path)
			if perHost > 550 && hosts > 100 { // with few hosts, other memory distorts the result
				t.Errorf("a host with a queued URL takes %.0f B, want at most 550", perHost)
			}
			if most := 1.3*path + 20; perURL > most && urls/hosts >= 1000 { // the last node of a list is not full, which counts more in shorter lists
				t.Errorf("a URL in a long list takes %.1f B, want at most %.1f", perURL, most)
			}
		})
	}
}

// usedAfter adds pages and returns the memory that the server then uses,
// without buffers of clients.
func usedAfter(t *testing.T, server *servers.RedisServer, cfg Config, pages []frontier.Offer) float64 {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for len(pages) > 0 {
		some := pages[:min(len(pages), 1000)]
		pages = pages[len(some):]
		mustAdd(t, s, some)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := server.UsedMemory()
	if err != nil {
		t.Fatal(err)
	}
	return float64(n)
}

// TestCountsMemory measures how much memory the server needs for the counts of a host, of which one in ten has had two
// kinds of failures.
func TestCountsMemory(t *testing.T) {
	hosts := 30_000
	if *proof {
		hosts = mostCounted
	}
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, Config{
		Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "memory", Capacity: 1000, Partitions: 256,
	})
	used := func() float64 {
		n, err := server.UsedMemory()
		if err != nil {
			t.Fatal(err)
		}
		return float64(n)
	}
	before := used()
	for first := 0; first < hosts; first += 1000 {
		_, err := s.client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for n := first; n < first+1000; n++ {
				host, value := fmt.Sprintf("www.site%07d.example", n), fmt.Sprintf("%d %d %d 1796040000", n%500, n%500, n%500*20_000)
				if n%10 == 0 {
					value += " timeout=3 503=12"
				}
				pipe.HSet(t.Context(), s.partition(host).counts(s.hasher.Fingerprint(host)), host, value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each := (used() - before) / float64(hosts)
	t.Logf("the counts of one of %d hosts: %.0f B", hosts, each)
	if most := 200.0; each > most { // if there are few hosts, a hash has only one or two
		t.Errorf("the counts of a host take %.0f B, want at most %.0f", each, most)
	}
}
