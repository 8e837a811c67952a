package frontiertest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/frontier"
)

// raceCases run goroutines against one crawl. With the race detector they find more
// faults.
var raceCases = []testCase{
	{"RacersAddEachURLOnce", Options{MaxPerHost: 150}, func(c *driver) {
		const urls, hosts = 1000, 5 // 200 for each host; 150 fit
		added := c.raceToAdd(urls, func(_, n int) []frontier.Offer {
			item := page(fmt.Sprintf("h%d.test", n%hosts), n)
			item.Class = frontier.Class(n / hosts % 2)
			return []frontier.Offer{item, item}
		})
		c.want("number of URLs answered Added", added, 150*hosts)
		c.wantStats(counts{"found": 2 * racers * urls})
		c.wantPlaces(added, 0, 0, 0)
	}},
	{"RacersLeaseEachHostOnce", Options{}, func(c *driver) {
		const hosts = 200
		c.addHosts(hosts, 1)
		var holders sync.Map
		c.Race(racers, func(i int) error {
			for {
				grant, err := c.Lease(c.Ctx, frontier.LeaseRequest{IDs: c.ids(3)})
				if err != nil || len(grant.Leases) == 0 {
					return err
				}
				for _, l := range grant.Leases {
					if first, twice := holders.LoadOrStore(l.Host, i); twice {
						return fmt.Errorf("%s was handed out to racers %v and %d", l.Host, first, i)
					}
				}
			}
		})
		c.wantPlaces(0, hosts, 0, 0)
	}},
	{"RacersRepeatOneLease", Options{}, func(c *driver) {
		c.add(append(pages("a.test", 0, 3), pages("b.test", 0, 3)...)...)
		ids := c.ids(1)
		hosts := make([]string, racers)
		c.Race(racers, func(i int) error {
			grant, err := c.Lease(c.Ctx, frontier.LeaseRequest{IDs: ids})
			if err != nil || len(grant.Leases) != 1 {
				return fmt.Errorf("%d leases, %v, want 1", len(grant.Leases), err)
			}
			hosts[i] = grant.Leases[0].Host
			return nil
		})
		for _, host := range hosts {
			c.Require(host == hosts[0], "racers that repeat one request got hosts %q, want the same host", hosts)
		}
		c.wantPlaces(3, 3, 0, 0)
	}},
	// This case completes pages that all have the same links.
	{"RacersFollowLinksOnce", Options{}, func(c *driver) {
		leases := make([]frontier.Lease, racers)
		for i := range leases {
			c.add(page(fmt.Sprintf("h%d.test", i), 0))
			leases[i] = c.lease()
		}
		links := pages("common.test", 0, 300)
		var added, found atomic.Uint64
		c.Race(racers, func(i int) error {
			done := finished(leases[i].Items[0])
			done.Links = links
			done.Record = func(counts frontier.LinkCounts) error {
				added.Add(counts.Added)
				found.Add(counts.Found)
				return nil
			}
			for range 2 { // the second call is a repeat
				if err := c.Complete(c.Ctx, leases[i].ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); err != nil {
					return err
				}
			}
			return nil
		})
		c.want("number of links added according to the records", added.Load(), 300)
		c.want("number of links found according to the records", found.Load(), 300*racers)
		c.wantPlaces(300, 0, racers, 0)
	}},
	// This case crawls a web from page 0 until the frontier is empty.
	// Page n has links to pages 2n+1 (twice), 2n+2 and n/2.
	{"RacersCrawlEverythingOnce", Options{}, func(c *driver) {
		const size = 2000
		at := func(n int) frontier.Offer { return page(fmt.Sprintf("h%d.test", n%17), n) }
		number := map[string]int{}
		for n := range size {
			number[at(n).URL] = n
		}
		c.add(at(0))
		visits := make([]atomic.Int32, size)
		fetch := func(item frontier.Item) frontier.Completion {
			n := number[item.URL]
			if item.Attempts == 0 && n%10 == 3 {
				return retried(item, 0)
			}
			visits[n].Add(1)
			done := finished(item)
			for _, link := range []int{2*n + 1, 2*n + 2, 2*n + 1, n / 2} {
				if link < size {
					done.Links = append(done.Links, at(link))
				}
			}
			return done
		}
		c.Race(racers, func(int) error {
			for {
				grant, err := c.Lease(c.Ctx, frontier.LeaseRequest{IDs: c.ids(2)})
				if err != nil || grant.Empty {
					return err
				}
				for _, l := range grant.Leases {
					for _, item := range l.Items {
						if err := c.Complete(c.Ctx, l.ID, []frontier.Completion{fetch(item)}, frontier.HostUpdate{}); err != nil {
							return err
						}
					}
					if err := c.Complete(c.Ctx, l.ID, nil, frontier.HostUpdate{End: true}); err != nil {
						return err
					}
				}
			}
		})
		for n := range visits {
			got := visits[n].Load()
			c.Require(got == 1, "page %d was visited %d times, want once", n, got)
		}
		c.wantPlaces(0, 0, size, 0)
		c.wantAudit()
	}},
}

// racers is the number of goroutines in a race.
const racers = 16

// raceToAdd makes several goroutines, the racers, add n URLs in the same order, so that they
// compete. The function offers tells what a racer adds for a URL. raceToAdd returns how many
// offers were answered Added. It fails if two offers of the same URL were answered Added.
func (d *driver) raceToAdd(n int, offers func(racer, url int) []frontier.Offer) (added uint64) {
	wins := make([]atomic.Int32, n)
	d.Race(racers, func(racer int) error {
		for url := range n {
			verdicts, err := d.Add(d.Ctx, offers(racer, url))
			if err != nil {
				return err
			}
			for _, verdict := range verdicts {
				if verdict.Answer == frontier.Added {
					wins[url].Add(1)
				}
			}
		}
		return nil
	})
	for url := range wins {
		won := wins[url].Load()
		d.Require(won <= 1, "URL %d was answered added %d times, want at most once", url, won)
		added += uint64(won)
	}
	return added
}
