package redisstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// BenchmarkCrawl measures the calls of a crawl other than Add. It leases hosts with 32
// items each, completes every page in a call of its own, with known links, and ends the
// lease with the last page.
func BenchmarkCrawl(b *testing.B) {
	server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
	s := openStore(b, Config{
		Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Name: "bench", SeenCache: DefaultSeenCache, OpenOutput: countOutput,
	})
	const batch, workers = 32, 16
	hosts := b.N/batch + 1
	for host := range hosts {
		mustAdd(b, s, benchPages(host, 0, batch))
	}
	known := benchPages(0, 0, 10)
	mustAdd(b, s, known)
	cpu, log := usage(b, server)
	b.ResetTimer()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				grant, err := s.Lease(b.Context(), frontier.LeaseRequest{IDs: leaseIDs(2), InFlight: 4})
				if err != nil || grant.Empty {
					if err != nil {
						b.Error(err)
					}
					return
				}
				for _, l := range grant.Leases {
					for i, item := range l.Items {
						done := finish(item)
						done.Links = known
						update := frontier.HostUpdate{End: i == len(l.Items)-1, Blob: []byte("robots")}
						if err := s.Complete(b.Context(), l.ID, []frontier.Completion{done}, update); err != nil {
							b.Error(err)
							return
						}
					}
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	pages := float64(hosts * batch)
	cpuAfter, logAfter := usage(b, server)
	b.ReportMetric(pages/b.Elapsed().Seconds(), "pages/s")
	b.ReportMetric(float64((cpuAfter-cpu).Nanoseconds())/1e3/pages, "redis-µs/page")
	b.ReportMetric(float64(logAfter-log)/pages, "aof-B/page")
	b.ReportMetric(0, "ns/op")
	calls, err := server.Info("commandstats", "cmdstat_evalsha")
	if err != nil {
		b.Fatal(err)
	}
	b.Log(fmt.Sprint("statistics of EVALSHA: ", calls))
}
