package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// readmitNow readmits finished items, and checks that each is let in.
func readmitNow(t *testing.T, s *Store, items []frontier.Offer) {
	t.Helper()
	found, err := s.Readmit(t.Context(), items, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if found[i] != frontier.Readmitted {
			t.Fatalf("Readmit of %s found %d, want it readmitted", items[i].URL, found[i])
		}
	}
}

// endAll completes all items of a crawl, each with the links that the function returns.
func endAll(t *testing.T, s *Store, links func() []frontier.Offer) {
	t.Helper()
	for {
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(4)})
		if err != nil {
			t.Fatal(err)
		}
		if grant.Empty {
			return
		}
		for _, l := range grant.Leases {
			var done []frontier.Completion
			for _, it := range l.Items {
				c := finish(it)
				c.Links = links()
				done = append(done, c)
			}
			if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{End: true}); err != nil {
				t.Fatal(err)
			}
		}
		if len(grant.Leases) == 0 {
			time.Sleep(min(grant.Wait, 10*time.Millisecond))
		}
	}
}

func noLinks() []frontier.Offer { return nil }

// TestReadmitReachesCaches: a worker that has cached a URL as seen, and one that has asked about the links of a page and has
// not completed it, perhaps because it was suspended, do not answer Seen for a URL that another process has readmitted.
func TestReadmitReachesCaches(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	worker, other := openStore(t, cfg), openStore(t, cfg)
	other.durable = 0
	url := testPages("b.test", 0, 1)
	mustAdd(t, worker, append(testPages("a.test", 0, 5), url...))
	endAll(t, other, noLinks)
	for range 2 {
		if got, err := worker.offer(t.Context(), url, nil, true); err != nil || got.verdicts[0].Answer != frontier.Seen {
			t.Fatalf("a finished URL is answered %v, %v", got.verdicts, err)
		}
	}
	if !worker.seen.has(worker.hasher.Fingerprint(url[0].URL)) {
		t.Fatal("the URL is not cached")
	}
	begin := func(n int) (c *completing, page frontier.Completion, lease frontier.LeaseID) {
		mustAdd(t, worker, testPages("c.test", n, n+1))
		var grant frontier.Grant
		for len(grant.Leases) == 0 {
			var err error
			if grant, err = worker.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil {
				t.Fatal(err)
			}
		}
		page, lease = finish(grant.Leases[0].Items[0]), grant.Leases[0].ID
		page.Links = url
		return &completing{Store: worker, h: worker.held.get(lease), update: frontier.HostUpdate{End: true}}, page, lease
	}
	queued := func(want int) {
		t.Helper()
		if got := worker.counter(t, fieldQueued); int(got) != want {
			t.Fatalf("%d items are queued, want %d", got, want)
		}
		endAll(t, other, noLinks)
	}
	readmitNow(t, other, url)
	_, page, lease := begin(0)
	if err := worker.Complete(t.Context(), lease, []frontier.Completion{page}, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
	queued(1)
	for n, before := range []bool{true, false} { // whether it is readmitted between the answer and the completion
		c, page, _ := begin(n + 1)
		if err := errors.Join(c.begin([]frontier.Completion{page}), c.decide(t.Context()), c.follow(t.Context())); err != nil {
			t.Fatal(err)
		}
		if before {
			readmitNow(t, other, url)
		}
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.end()
		queued(map[bool]int{true: 1}[before])
	}
	for i, host := range []string{"d.test", "e.test", "f.test", "g.test", "h.test", "i.test", "j.test", "k.test"} { // also in partitions that had no readmitted item
		items := testPages(host, 0, 2)
		items[1].Class = frontier.Exact
		mustAdd(t, other, items)
		endAll(t, other, noLinks)
		readmitNow(t, other, items)
		offer := func() ([]frontier.Verdict, error) { return worker.Add(t.Context(), items) }
		if i%2 == 0 {
			offer = func() (verdicts []frontier.Verdict, err error) {
				lines := []frontier.Line{{Offer: items[0]}, {Offer: items[1]}}
				verdicts, _, err = worker.Submit(t.Context(), frontier.Chunk{ID: [32]byte{byte(i)}, TTL: time.Hour}, lines)
				return verdicts, err
			}
		}
		if got, err := offer(); err != nil || answersOf(got)[frontier.Added] != 2 {
			t.Errorf("case %d: URLs that are readmitted are answered %v, %v", i, got, err)
		}
	}
	wantNoContradiction(t, worker)
}

// TestReadmitBetweenAnswers: a completion takes effect with answers that were given at different times, of which some are older than a
// readmission. With an exact set, answers of the set can be older, too.
func TestReadmitBetweenAnswers(t *testing.T) {
	t.Parallel()
	for _, class := range []frontier.Class{frontier.Bulk, frontier.Exact} {
		cfg := config(servers.Redis(t, servers.RedisOptions{}))
		open := func() *Store { return openStore(t, cfg) }
		if class == frontier.Exact {
			set := exacttest.NewMemory(exacttest.Options{})
			open = func() *Store {
				return openWithSet(t, cfg, frontiertest.Options{Output: new(countingOutput)}, set).Store
			}
		}
		worker, other := open(), open()
		other.durable = 0
		urls := testPages("b.test", 0, 2)
		urls[0].Class, urls[1].Class = class, class
		mustAdd(t, worker, urls)
		endAll(t, other, noLinks)
		mustAdd(t, worker, testPages("a.test", 0, 2))
		var grant frontier.Grant
		for begun := time.Now(); len(grant.Leases) == 0; time.Sleep(10 * time.Millisecond) {
			var err error
			if grant, err = worker.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1), InFlight: 2}); err != nil || time.Since(begun) > time.Minute {
				t.Fatalf("Lease = %+v, %v", grant, err)
			}
		}
		l := grant.Leases[0]
		pages := []frontier.Completion{finish(l.Items[0]), finish(l.Items[1])}
		pages[0].Links, pages[1].Links = urls[1:], urls[:1]
		first := &completing{Store: worker, h: worker.held.get(l.ID)}
		if err := errors.Join(first.begin(pages[1:]), first.decide(t.Context()), first.follow(t.Context())); err != nil {
			t.Fatal(err)
		}
		first.end()
		readmitNow(t, other, urls)
		worker.forgetKnown(worker.known.Load())
		if err := worker.Complete(t.Context(), l.ID, pages, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
		if n := worker.counter(t, fieldQueued); n != 2 {
			t.Errorf("class %d: %d URLs are queued, want 2, which were readmitted before the completion", class, n)
		}
		if n := worker.counter(t, fieldSeen); n != 0 {
			t.Errorf("class %d: %d links count as seen, want 0", class, n)
		}
		wantNoContradiction(t, worker)
	}
}

func wantNoContradiction(t *testing.T, s *Store) {
	t.Helper()
	r, err := s.recount(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := contradictions(&r); len(wrong) > 0 {
		t.Errorf("the recount finds contradictions %q", wrong)
	}
}

// TestReadmitBesideWriters: eight workers complete pages with links to the same URLs, while another process readmits those that
// are finished. Each readmission lets its URL in once, and no URL ends twice in a round.
func TestReadmitBesideWriters(t *testing.T) {
	t.Parallel()
	const urls, hosts = 60, 10
	readmissions := 60
	if testing.Short() {
		readmissions = 30
	}
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.LeaseTTL = time.Minute
	var all []frontier.Offer
	for h := range hosts {
		all = append(all, testPages(fmt.Sprintf("h%d.test", h), 0, urls/hosts)...)
	}
	for i := range all {
		if i%3 == 0 {
			all[i].Class = frontier.Exact
		}
	}
	boss := openStore(t, cfg)
	boss.durable = 0
	mustAdd(t, boss, all)
	type end struct {
		url   string
		round uint32
	}
	var mu sync.Mutex
	ended, added := map[end]int{}, map[string]int{}
	var over atomic.Bool
	var group sync.WaitGroup
	for n := range 8 {
		s := openStore(t, cfg)
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		group.Go(func() {
			for {
				grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
				if err != nil {
					t.Error(err)
					return
				}
				if grant.Empty && over.Load() {
					return
				}
				for _, l := range grant.Leases {
					it := l.Items[rng.IntN(len(l.Items))]
					c := finish(it)
					if rng.IntN(4) == 0 {
						c.Outcome = frontier.Network
					}
					for range 20 {
						c.Links = append(c.Links, all[rng.IntN(urls)])
					}
					c.LinkAnswered = func(i int, v frontier.Verdict) {
						mu.Lock()
						defer mu.Unlock()
						if v.Answer == frontier.Added {
							added[c.Links[i].URL]++
						}
					}
					if err := s.Complete(t.Context(), l.ID, []frontier.Completion{c}, frontier.HostUpdate{End: true}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					ended[end{it.URL, it.Round}]++
					mu.Unlock()
				}
				if len(grant.Leases) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	let, most := 0, map[string]int{}
	for round := 0; round < readmissions && !t.Failed(); round++ {
		for h := range 8 { // pages that link to the URLs
			mustAdd(t, boss, testPages(fmt.Sprintf("n%d.test", h), round, round+1))
		}
		from := rand.IntN(urls - 5)
		some := all[from : from+5]
		found, err := boss.Readmit(t.Context(), some, false)
		if err != nil {
			t.Error(err)
			break
		}
		for i := range found {
			if found[i] == frontier.Readmitted {
				let++
				most[some[i].URL]++
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	over.Store(true)
	group.Wait()
	endAll(t, boss, noLinks)
	mu.Lock()
	defer mu.Unlock()
	for e, n := range ended {
		if n > 1 {
			t.Errorf("%s ends %d times in round %d", e.url, n, e.round)
		}
	}
	for url, n := range added {
		if n > most[url] {
			t.Errorf("%s was added %d times after its first time, after %d readmissions", url, n, most[url])
		}
	}
	if let < 20 || len(added) < 20 {
		t.Errorf("only %d readmissions and %d URLs that were added again", let, len(added))
	}
	left := 0
	for _, v := range mustAdd(t, boss, all) {
		if v.Answer == frontier.Added {
			left++
		}
	}
	if v := mustAdd(t, boss, all); answersOf(v)[frontier.Added] > 0 {
		t.Errorf("a repeat adds %d URLs", answersOf(v)[frontier.Added])
	}
	endAll(t, boss, noLinks)
	if n := boss.counter(t, fieldReadmitted); n != 0 {
		t.Errorf("%d readmissions are left after all URLs were offered", n)
	}
	t.Logf("%d readmissions, %d URLs came back in the end", let, left)
	wantNoContradiction(t, boss)
}

// TestReadmitThroughRestart: a server that is killed while Readmit waits makes it fail, and a repeat lets the URLs in. A rebuild of
// the filter keeps the readmissions.
func TestReadmitThroughRestart(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	items := append(testPages("a.test", 0, 3), testPages("b.test", 0, 3)...)
	mustAdd(t, b.Store, items)
	for _, l := range b.hosts() {
		done := []frontier.Completion{finish(l.Items[0]), finish(l.Items[1]), finish(l.Items[2])}
		done[1].Outcome = frontier.Network
		if err := b.Complete(t.Context(), l.ID, done, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
	b.durable = time.Second
	failed := make(chan error)
	go func() {
		_, err := b.Readmit(t.Context(), items, false)
		failed <- err
	}()
	time.Sleep(300 * time.Millisecond)
	b.restart()
	if err := <-failed; !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Readmit beside a restart = %v, want ErrUnavailable", err)
	}
	b.durable = 0
	var err error
	for range 30 {
		if _, err = b.Readmit(t.Context(), items, false); !errors.Is(err, frontier.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := b.cfg
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var ends []frontier.Offer
	ends = append(ends, items...)
	if _, err := Rebuild(t.Context(), cfg, recordsOf(ends)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, cfg)
	if got := answersOf(mustAdd(t, s, items)); got[frontier.Added] != len(items) {
		t.Errorf("after the rebuild the answers are %v, want all Added", got)
	}
	rounds := map[uint32]int{}
	for item, err := range s.items(t.Context(), frontier.Queued, "") {
		if err != nil {
			t.Fatal(err)
		}
		rounds[item.Round]++
	}
	if rounds[1] != len(items) {
		t.Errorf("the items are queued in the rounds %v, want all in 1", rounds)
	}
	wantNoContradiction(t, s)
}
