package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier"
)

// BenchmarkAddNew adds URLs that are new, as pages bring them: batch URLs of one
// host in a call, from many callers, at a rate of false positives of 1e-6 and
// with a log synced every second.
func BenchmarkAddNew(b *testing.B) {
	for _, batch := range []int{4, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
			s := openStore(b, Config{
				Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "bench", Delay: NoDelay,
			})
			const hosts = 1000
			mustAdd(b, s, benchPages(0, 0, 1)) // connected, scripts loaded
			cpu, log := usage(b, server)
			var next atomic.Int64
			b.ResetTimer()
			var group sync.WaitGroup
			for range 64 {
				group.Go(func() {
					for {
						n := int(next.Add(1))
						if n > b.N {
							return
						}
						mustAdd(b, s, benchPages(n%hosts, n/hosts*batch+1, batch))
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

// usage returns the processor time that a server took and the length of its log.
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

// benchPages returns pages with URLs of 66 bytes, 39 of them
// path and query.
func benchPages(host, from, n int) []frontier.Item {
	items := make([]frontier.Item, n)
	name := fmt.Sprintf("www.site%05d.org", host)
	for i := range items {
		items[i] = frontier.Item{
			URL: fmt.Sprintf("https://%s/wiki/Some_article/%09d?page=next", name, from+i), Host: name,
			Depth: 3, Priority: frontier.PriorityPage, Referrer: frontier.Referrer{1, 2, 3, 4, 5, 6, 7, 8},
		}
	}
	return items
}
