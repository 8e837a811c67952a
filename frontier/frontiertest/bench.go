package frontiertest

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Bench measures how many items per second a crawl leases and completes. Each call of open must
// return a new, empty crawl. The measured times include about 0.2 µs for the creation of each
// link. crawler bench speed measures how fast a crawl adds items.
func Bench(b *testing.B, open func(b *testing.B, opt Options) Crawl) {
	for _, seen := range []int{0, 20} {
		for _, callers := range []int{1, racers} {
			b.Run(fmt.Sprintf("op=complete/new=1/seen=%d/callers=%d", seen, callers), func(b *testing.B) {
				crawl := open(b, Options{LeaseTTL: time.Minute, Capacity: 4_000_000, Now: time.Now, Output: new(output)})
				benchComplete(b, crawl, seen, callers)
			})
		}
	}
}

const benchHosts = 1000

// benchOffer returns the n-th page of a crawl. Consecutive pages are of different hosts.
func benchOffer(n int) frontier.Offer {
	host := "h" + strconv.Itoa(n%benchHosts) + ".test"
	return frontier.Offer{
		URL: "https://" + host + "/some/longer/path/page-" + strconv.Itoa(n/benchHosts) + ".html", Host: host, Depth: 3,
		Priority: frontier.PriorityPage,
	}
}

func benchOffers(from, n int) []frontier.Offer {
	items := make([]frontier.Offer, n)
	for i := range items {
		items[i] = benchOffer(from + i)
	}
	return items
}

// benchComplete leases a host with up to 32 items and completes them, b.N times. Each page
// has one new link, so that the length of the queue does not change. seen is the number of
// known links on each page.
func benchComplete(b *testing.B, crawl Crawl, seen, callers int) {
	const waiting = 32 * benchHosts
	for from := 0; from < waiting; from += 1000 {
		if _, err := crawl.Add(b.Context(), benchOffers(from, 1000)); err != nil {
			b.Fatal(err)
		}
	}
	var added, ids, items atomic.Int64
	added.Store(waiting)
	complete := func() error {
		var id frontier.LeaseID
		binary.BigEndian.PutUint64(id[:], uint64(ids.Add(1)))
		grant, err := crawl.Lease(b.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{id}})
		if err != nil || len(grant.Leases) == 0 {
			return err
		}
		lease := grant.Leases[0]
		done := make([]frontier.Completion, len(lease.Items))
		for i, item := range lease.Items {
			n := int(added.Add(1))
			done[i] = finished(item)
			done[i].Links = append(benchOffers(n%waiting, seen), benchOffer(n))
			done[i].Record = func(frontier.LinkCounts) error { return nil }
		}
		items.Add(int64(len(done)))
		return crawl.Complete(b.Context(), id, done, frontier.HostUpdate{End: true})
	}
	var calls atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers { // testing.B.Loop supports only one goroutine
		wg.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := complete(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(items.Load())/b.Elapsed().Seconds(), "items/s")
}
