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

// Bench measures how many new items per second a crawl adds, how many known items it answers
// with Seen, and how many items it leases and completes. Each call of open must return a new,
// empty crawl. The measured times include about 0.2 µs for the creation of each item.
func Bench(b *testing.B, open func(b *testing.B, opt Options) Crawl) {
	fresh := func(b *testing.B) Crawl {
		return open(b, Options{LeaseTTL: time.Minute, FilterCapacity: 4_000_000, Now: time.Now, Output: new(output)})
	}
	for _, op := range []struct {
		name string
		run  func(b *testing.B, crawl Crawl, batch, callers int)
	}{{"add", benchAdd}, {"seen", benchSeen}} {
		for _, batch := range []int{4, 100, 500} {
			for _, callers := range []int{1, racers} {
				b.Run(fmt.Sprintf("op=%s/batch=%d/callers=%d", op.name, batch, callers), func(b *testing.B) {
					op.run(b, fresh(b), batch, callers)
				})
			}
		}
	}
	for _, seen := range []int{0, 20} {
		for _, callers := range []int{1, racers} {
			b.Run(fmt.Sprintf("op=complete/new=1/seen=%d/callers=%d", seen, callers), func(b *testing.B) {
				benchComplete(b, fresh(b), seen, callers)
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

// benchFill adds the first n items, in batches.
func benchFill(b *testing.B, crawl Crawl, n int) {
	for from := 0; from < n; from += 1000 {
		if _, err := crawl.Add(b.Context(), benchOffers(from, 1000)); err != nil {
			b.Fatal(err)
		}
	}
}

// share makes b.N calls of the function work from several goroutines. (testing.B.Loop
// supports only one goroutine.)
func share(b *testing.B, callers int, work func(n int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := work(int(n - 1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

func benchAdd(b *testing.B, crawl Crawl, batch, callers int) {
	share(b, callers, func(n int) error {
		_, err := crawl.Add(b.Context(), benchOffers(n*batch, batch))
		return err
	})
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "items/s")
}

func benchSeen(b *testing.B, crawl Crawl, batch, callers int) {
	const known = 100_000
	benchFill(b, crawl, known)
	share(b, callers, func(n int) error {
		verdicts, err := crawl.Add(b.Context(), benchOffers(n*batch%(known-batch), batch))
		if err == nil && verdicts[0].Answer != frontier.Seen {
			return fmt.Errorf("a known URL is answered %v", verdicts[0].Answer)
		}
		return err
	})
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "links/s")
}

// benchComplete leases a host with up to 32 items and completes them, b.N times. Each page
// has one new link, so that the length of the queue does not change. seen is the number of
// known links on each page.
func benchComplete(b *testing.B, crawl Crawl, seen, callers int) {
	const waiting = 32 * benchHosts
	benchFill(b, crawl, waiting)
	var added, ids, items atomic.Int64
	added.Store(waiting)
	share(b, callers, func(int) error {
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
	})
	b.ReportMetric(float64(items.Load())/b.Elapsed().Seconds(), "items/s")
}
