package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// benchCallers is the number of goroutines that offer URLs at the same time.
const benchCallers = 128

// loggedServer has a log that is synced every second and never rewritten. The log's growth
// is therefore the number of bytes written.
var loggedServer = servers.RedisOptions{AppendOnly: true, Config: map[string]string{"auto-aof-rewrite-percentage": "0"}}

// BenchmarkAddNew adds new URLs as a crawl does: many callers each add some URLs of one host
// in one call. The false-positive rate is 1e-6, and the log is synced every second.
func BenchmarkAddNew(b *testing.B) {
	for _, batch := range []int{4, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			server := servers.Redis(b, loggedServer)
			s := openStore(b, Config{
				Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "bench",
			})
			const hosts = 1000
			mustAdd(b, s, benchPages(0, 0, 1)) // connects, and loads the scripts
			cpu, log := usage(b, server)
			var next atomic.Int64
			b.ResetTimer()
			var group sync.WaitGroup
			for range benchCallers {
				group.Go(func() {
					for {
						n := int(next.Add(1))
						if n > b.N {
							return
						}
						if _, err := s.Add(b.Context(), benchPages(n%hosts, n/hosts*batch+1, batch)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			urls := float64(b.N * batch)
			cpuAfter, logAfter := usage(b, server)
			b.ReportMetric(urls/b.Elapsed().Seconds(), "urls/s")
			b.ReportMetric(float64((cpuAfter-cpu).Nanoseconds())/1e3/urls, "redis-µs/url")
			b.ReportMetric(float64(logAfter-log)/urls, "aof-B/url")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// usage returns the processor time of a server and the length of its log.
func usage(b *testing.B, server *servers.RedisServer) (time.Duration, int64) {
	cpu, err := server.CPU()
	if err != nil {
		b.Fatal(err)
	}
	log, err := server.AOFSize()
	if err != nil {
		b.Fatal(err)
	}
	return cpu, log
}

// benchPages returns pages with URLs of 66 bytes: 39 bytes are path and query.
func benchPages(host, from, n int) []frontier.Offer {
	items := make([]frontier.Offer, n)
	name := fmt.Sprintf("www.site%05d.org", host)
	for i := range items {
		items[i] = frontier.Offer{
			URL: fmt.Sprintf("https://%s/wiki/Some_article/%09d?page=next", name, from+i), Host: name,
			Depth: 3, Priority: frontier.PriorityPage, Referrer: frontier.Referrer{1, 2, 3, 4, 5, 6, 7, 8},
		}
	}
	return items
}

// BenchmarkLinks offers the links of pages as in a crawl: one in ten is new, the others
// are known URLs that follow Zipf's law, on a thousand hosts. An op is a page of 50
// links.
func BenchmarkLinks(b *testing.B) {
	const perPage = 50
	for _, cache := range []int{0, DefaultSeenCache} {
		b.Run(fmt.Sprintf("cache=%t", cache > 0), func(b *testing.B) {
			server := servers.Redis(b, loggedServer)
			s := openStore(b, Config{
				Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "bench", SeenCache: cache,
			})
			const warm = 2000 // pages before the clock starts
			pages := linkStream(newRand(b), warm+b.N, perPage)
			offerAll := func(pages [][]frontier.Offer) {
				var next atomic.Int64
				var group sync.WaitGroup
				for range benchCallers {
					group.Go(func() {
						for n := int(next.Add(1)); n <= len(pages); n = int(next.Add(1)) {
							if _, err := s.offer(b.Context(), pages[n-1], nil, true); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
			}
			offerAll(pages[:warm])
			cpu, log := usage(b, server)
			own := ownCPU(b)
			b.ResetTimer()
			offerAll(pages[warm:])
			b.StopTimer()
			links := float64(b.N * perPage)
			cpuAfter, logAfter := usage(b, server)
			b.ReportMetric(links/b.Elapsed().Seconds(), "links/s")
			b.ReportMetric(float64((cpuAfter-cpu).Nanoseconds())/1e3/links, "redis-µs/link")
			b.ReportMetric(float64((ownCPU(b)-own).Nanoseconds())/1e3/links, "own-µs/link")
			b.ReportMetric(float64(logAfter-log)/links, "aof-B/link")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// linkStream returns pages of links. Four in five of the new links are to the host of the
// page, because most links of a site stay within the site.
func linkStream(rng *rand.Rand, pages, perPage int) [][]frontier.Offer {
	const hosts = 1000
	rank := rand.NewZipf(rng, 1.1, 1, 1<<40)
	known := benchPages(0, 0, 1)
	stream := make([][]frontier.Offer, pages)
	for i := range stream {
		links, own := make([]frontier.Offer, perPage), rng.IntN(hosts)
		for j := range links {
			if rng.IntN(10) > 0 {
				links[j] = known[rank.Uint64()%uint64(len(known))]
				continue
			}
			host := own
			if rng.IntN(5) == 0 {
				host = rng.IntN(hosts)
			}
			links[j] = benchPages(host, len(known), 1)[0]
			known = append(known, links[j])
		}
		stream[i] = links
	}
	return stream
}

// ownCPU returns the processor time that this process took.
func ownCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
