package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// expedition is a crawl of a small web by several workers, each with its own Store, while the
// test disturbs the servers. Page n has links to the pages 2n+1 and 2n+2, and to two random
// pages from 0 to n. So all pages can be reached from page 0. The expedition keeps the times of
// the requests to each host and the records that were written.
type expedition struct {
	*testing.T
	pages, hosts int
	delay        time.Duration
	ttl          time.Duration // of leases
	batch        int           // items completed at once
	stores       []*Store
	over         atomic.Bool // set when the servers are not disturbed any more

	mu      sync.Mutex
	asked   map[string]time.Time // time of the last request to each host
	records map[string]int       // by URL
	lost    int                  // number of lost leases
	held    int                  // number of calls that returned ErrUnavailable
	failed  error                // the first error that is not a result of the disturbance
}

func newExpedition(t *testing.T, cfg Config, workers, pages int) *expedition {
	e := &expedition{
		T: t, pages: pages, hosts: 40, delay: 4 * time.Millisecond, batch: 1,
		asked: make(map[string]time.Time), records: make(map[string]int),
	}
	e.ttl = cmp.Or(cfg.LeaseTTL, time.Second)
	cfg.Policy, cfg.LeaseTTL = every(e.delay), e.ttl
	for range workers {
		cfg.OpenOutput = countOutput
		e.stores = append(e.stores, openStore(t, cfg))
	}
	return e
}

func (e *expedition) page(n int) frontier.Offer {
	host := fmt.Sprintf("h%d.test", n%e.hosts)
	return frontier.Offer{URL: fmt.Sprintf("https://%s/page/%d", host, n), Host: host, Priority: frontier.PriorityPage}
}

func (e *expedition) links(item frontier.Item) (links []frontier.Offer) {
	var n int
	if _, err := fmt.Sscanf(item.URL, "https://"+item.Host+"/page/%d", &n); err != nil {
		e.Error(err)
	}
	for _, to := range []int{2*n + 1, 2*n + 2, rand.IntN(n + 1), rand.IntN(n + 1)} {
		if to < e.pages {
			links = append(links, e.page(to))
		}
	}
	return links
}

// seed adds the first page, which a server may have forgotten. It repeats the
// call until the store answers.
func (e *expedition) seed(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := e.stores[0].Add(ctx, []frontier.Offer{e.page(0)})
		if err == nil || !e.passes(ctx, err) {
			return
		}
	}
}

// run makes the workers crawl while the function chaos disturbs the servers. Then the
// workers continue until the crawl is empty.
func (e *expedition) run(limit time.Duration, chaos func(ctx context.Context)) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), limit)
	defer cancel()
	e.seed(ctx)
	var group sync.WaitGroup
	for _, s := range e.stores {
		for range 2 {
			group.Go(func() { e.work(ctx, s) })
		}
	}
	chaos(ctx)
	e.seed(ctx)
	e.over.Store(true)
	group.Wait()
	if ctx.Err() != nil {
		e.Fatalf("the crawl has not ended within %v: %d of %d pages have records, %d calls returned ErrUnavailable",
			limit, len(e.records), e.pages, e.held)
	}
	if e.failed != nil {
		e.Fatal(e.failed)
	}
	e.Logf("%d records of %d pages, %d leases lost, %d calls returned ErrUnavailable",
		e.recordsWritten(), len(e.records), e.lost, e.held)
}

func (e *expedition) recordsWritten() (sum int) {
	for _, n := range e.records {
		sum += n
	}
	return sum
}

// passes reports whether an error is temporary, and waits if it is.
func (e *expedition) passes(ctx context.Context, err error) bool {
	if errors.Is(err, frontier.ErrUnavailable) {
		defer func() { _ = sleep(ctx, 20*time.Millisecond) }()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, frontier.ErrLeaseLost):
		e.lost++
		return false
	case errors.Is(err, frontier.ErrUnavailable):
		e.held++
		return true
	}
	if ctx.Err() == nil && e.failed == nil {
		e.failed = err
	}
	return false
}

func (e *expedition) work(ctx context.Context, s *Store) {
	for ctx.Err() == nil {
		over, asked := e.over.Load(), time.Now()
		grant, err := s.Lease(ctx, frontier.LeaseRequest{IDs: leaseIDs(3), InFlight: 1})
		if err != nil {
			if !e.passes(ctx, err) {
				return
			}
			continue
		}
		if grant.Empty && over {
			return
		}
		var group sync.WaitGroup
		for _, l := range grant.Leases {
			group.Go(func() { e.visit(ctx, s, l, asked.Add(e.ttl)) })
		}
		group.Wait()
		if len(grant.Leases) == 0 {
			_ = sleep(ctx, min(max(grant.Wait, time.Millisecond), 50*time.Millisecond))
		}
	}
}

// visit works on a lease. It starts no request shortly before the deadline.
func (e *expedition) visit(ctx context.Context, s *Store, l frontier.Lease, deadline time.Time) {
	var done []frontier.Completion
	update := frontier.HostUpdate{Due: e.delay, Delay: e.delay}
	for i, item := range l.Items {
		late := !e.start(item.Host, deadline.Add(-100*time.Millisecond))
		if !late {
			done = append(done, e.fetched(item))
			_ = sleep(ctx, e.delay)
		}
		update.End = late || i == len(l.Items)-1
		if len(done) < e.batch && !update.End {
			continue
		}
		if !e.complete(ctx, s, l.ID, done, update) || update.End {
			return
		}
		done = nil
	}
}

func (e *expedition) fetched(item frontier.Item) frontier.Completion {
	done := finish(item)
	done.Links = e.links(item)
	done.Record = func(frontier.LinkCounts) error { return e.record(item.URL, 1) }
	done.Void = func() error { return e.record(item.URL, -1) }
	return done
}

// complete repeats a completion until it is answered.
func (e *expedition) complete(ctx context.Context, s *Store, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) bool {
	for ctx.Err() == nil {
		err := s.Complete(ctx, id, done, update)
		if err == nil {
			return true
		}
		if !e.passes(ctx, err) {
			return false
		}
	}
	return false
}

// start requests a page from a host and returns true, unless it is too late.
func (e *expedition) start(host string, latest time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if now.After(latest) {
		return false
	}
	if gap := now.Sub(e.asked[host]); gap < e.delay {
		e.Errorf("%s gets a request %v after its last one, want %v or more", host, gap, e.delay)
	}
	e.asked[host] = now
	return true
}

func (e *expedition) record(url string, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records[url] += n
	return nil
}

// wantEverything checks that every page has a record and was completed once.
func (e *expedition) wantEverything() {
	e.Helper()
	missing := 0
	for n := range e.pages {
		if e.records[e.page(n).URL] < 1 {
			missing++
		}
	}
	if missing > 0 {
		e.Errorf("%d of %d pages have no record", missing, e.pages)
	}
	stats := wantBooks(e.T, e.stores[0])
	if want := uint64(e.pages); stats.Done != want || stats.Added != want || stats.Records != want {
		e.Errorf("%d pages: the books are %+v, with %d records; want every page added, done and recorded once",
			e.pages, stats.Books, stats.Records)
	}
}
