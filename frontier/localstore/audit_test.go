package localstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// auditedCrawl is a crawl with rows of every kind, and what the test itself has counted.
type auditedCrawl struct {
	*Store
	cfg            Config
	done, failures RecordSum
	leased         int
}

func newAuditedCrawl(t *testing.T, random *rand.Rand) *auditedCrawl {
	t.Helper()
	cfg := Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 100, FPR: 1e-3, Shards: 4}}
	c := &auditedCrawl{Store: opened(t, cfg, Open), cfg: cfg}
	t.Cleanup(func() { _ = c.Close() })
	if fresh := knowPages(t, c.Store, 0, 30); fresh == 0 {
		t.Fatal("MarkSeen of 30 URLs found none that is new")
	}
	var items []frontier.Offer
	for i := range 400 {
		host := fmt.Sprintf("h%d.test", i%10)
		items = append(items, frontier.Offer{URL: fmt.Sprintf("https://%s/%d", host, i), Host: host,
			Priority: frontier.Priority(i % frontier.Priorities), Class: frontier.Class(i % 2)})
	}
	if _, err := c.Add(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		c.work(t, random)
		if round == 1 {
			if n, err := c.Retry(t.Context(), frontier.Failures{}); err != nil || n == 0 {
				t.Fatalf("Retry = %d, %v", n, err)
			}
		}
	}
	for _, l := range c.lease(t, 3) { // these leases stay
		back := []frontier.Completion{{Item: l.Items[0].Fingerprint, Disposition: frontier.GiveBack}}
		if err := c.Complete(t.Context(), l.ID, back, frontier.HostUpdate{}); err != nil {
			t.Fatal(err)
		}
		c.leased += len(l.Items) - 1
	}
	return c
}

func (c *auditedCrawl) lease(t *testing.T, hosts int) []frontier.Lease {
	t.Helper()
	request := frontier.LeaseRequest{Worker: "test", IDs: make([]frontier.LeaseID, hosts), InFlight: 2}
	for i := range request.IDs {
		request.IDs[i] = frontier.LeaseID(bloomstore.NewKey())
	}
	grant, err := c.Lease(t.Context(), request)
	if err != nil || len(grant.Leases) == 0 {
		t.Fatalf("Lease = %+v, %v", grant, err)
	}
	return grant.Leases
}

// work leases up to 4 hosts and completes each item in a random way: it is done, failed,
// retried or given back.
func (c *auditedCrawl) work(t *testing.T, random *rand.Rand) {
	t.Helper()
	for _, l := range c.lease(t, 4) {
		var done []frontier.Completion
		for _, item := range l.Items {
			completion := frontier.Completion{Item: item.Fingerprint}
			switch id := frontier.ReferrerOf(item.Fingerprint); random.IntN(6) {
			case 0:
				completion.Outcome, completion.Status = frontier.OK, 200
				c.done.Add(id, 1)
			case 1:
				completion.Outcome = frontier.Robots
				c.done.Add(id, 1)
			case 2:
				completion.Outcome = frontier.Network
				c.failures.Add(id, 1)
			case 3:
				completion.Disposition = frontier.Retry
			case 4:
				completion.Disposition, completion.RetryIn = frontier.Retry, time.Hour
			case 5:
				completion.Disposition = frontier.GiveBack
			}
			done = append(done, completion)
		}
		if err := c.Complete(t.Context(), l.ID, done, frontier.HostUpdate{End: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// differ returns the names of the numbers that differ between the counters and the rows.
func differ(r Recount) (terms []string) {
	c := &r.Counters
	states := make(map[frontier.State]uint64)
	for outcome, n := range r.Outcomes {
		states[outcome.State()] += n
	}
	for _, term := range []struct {
		name             string
		counter, counted uint64
	}{
		{"queued", c.Queued, r.Queued}, {"delayed", c.Delayed, r.Delayed}, {"leased", c.Leased, r.Leased},
		{"hosts", c.Hosts, r.Hosts}, {"failed", c.Failed, r.Failed}, {"done", c.Done, r.Finished.Count},
		{"outcomes", states[frontier.Failed] + states[frontier.Done], r.Finished.Count + r.Failed},
		{"added", c.Added, r.Queued + r.Leased + r.Finished.Count + r.Failed}, {"filter", 0, r.Forgotten},
	} {
		if term.counter != term.counted {
			terms = append(terms, term.name)
		}
	}
	if math.Abs(r.Added-float64(c.Added)) > 5*r.AddedErr+1 { // 5σ
		terms = append(terms, "fill")
	}
	return terms
}

func TestRecountFindsDamage(t *testing.T) {
	t.Parallel()
	seed, _ := suite.FirstSeed(*seed, 1)
	t.Logf("replay with -seed=%d", seed)
	c := newAuditedCrawl(t, rand.New(rand.NewPCG(seed, 0)))
	check := func(when string, leased int) {
		t.Helper()
		r, err := c.Recount(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if terms := differ(r); terms != nil || r.Faults != nil {
			t.Errorf("%s: terms %v do not balance, faults %q, recount %+v", when, terms, r.Faults, r)
		}
		if r.Finished != c.done || r.Failures != c.failures {
			t.Errorf("%s: done %v, failures %v; want done %v, failures %v", when, r.Finished, r.Failures, c.done, c.failures)
		}
		if int(r.Leased) != leased {
			t.Errorf("%s: %d leased, want %d", when, r.Leased, leased)
		}
	}
	check("with leases", c.leased)
	c.Store = killed(t, c.Store, c.cfg)
	check("after a crash", 0)
	c.Store = closed(t, c.Store, c.cfg, Rebuild)
	check("after a rebuild", 0)
}

// first returns the first row for which fits returns true. It reads one table.
func (c *auditedCrawl) first(t *testing.T, letter byte, fits func(key, value []byte) bool) (key, value []byte) {
	t.Helper()
	lower, upper := table(letter)
	err := c.scanRange(c.db, lower, upper, func(k, v []byte) (bool, error) {
		if fits == nil || fits(k, v) {
			key, value = bytes.Clone(k), bytes.Clone(v)
		}
		return key == nil, nil
	})
	if err != nil || key == nil {
		t.Fatalf("table %c has no row that fits (%v)", letter, err)
	}
	return key, value
}

func (c *auditedCrawl) set(t *testing.T, key, value []byte) {
	t.Helper()
	if err := c.db.Set(key, value, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

func (c *auditedCrawl) remove(t *testing.T, key []byte) {
	t.Helper()
	if err := c.db.Delete(key, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

// drop removes the first row for which fits returns true, or the first row of the table if
// fits is nil.
func drop(letter byte, fits func(c *auditedCrawl, key, value []byte) bool) func(*testing.T, *auditedCrawl) {
	return func(t *testing.T, c *auditedCrawl) {
		key, _ := c.first(t, letter, func(k, v []byte) bool { return fits == nil || fits(c, k, v) })
		c.remove(t, key)
	}
}

// heldRow reports whether a lease holds the item in a row of tableQueue.
func heldRow(c *auditedCrawl, key, _ []byte) bool {
	host, at, _ := splitQueueKey(key)
	for _, l := range c.leases {
		for i := range l.held {
			if l.host.key == string(host) && l.held[i].at == at {
				return true
			}
		}
	}
	return false
}

func counterAltered(alter func(*frontier.Stats)) func(*testing.T, *auditedCrawl) {
	return func(t *testing.T, c *auditedCrawl) {
		key, value := c.first(t, tableMeta, nil)
		var m meta
		if err := json.Unmarshal(value, &m); err != nil {
			t.Fatal(err)
		}
		alter(&m.Stats)
		value, err := json.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		c.set(t, key, value)
	}
}

func hostAltered(alter func(*host)) func(*testing.T, *auditedCrawl) {
	return func(t *testing.T, c *auditedCrawl) {
		h := new(host)
		key, _ := c.first(t, tableHost, func(_, value []byte) bool {
			err := decodeHost(value, h)
			return err == nil && h.waits() > 0 && h.waiting[frontier.PriorityPage] > 0
		})
		alter(h)
		c.set(t, key, appendHost(nil, h))
	}
}

// TestRecountNames corrupts one row, counter or filter in each case. Then the counters and
// the rows must differ in the numbers that the case lists in terms, and in no others.
func TestRecountNames(t *testing.T) {
	t.Parallel()
	isDone := func(_ *auditedCrawl, _, value []byte) bool {
		o, err := decodeOutcome(value)
		return err == nil && o.outcome.State() == frontier.Done
	}
	for name, test := range map[string]struct {
		corrupt func(*testing.T, *auditedCrawl)
		terms   string // terms that differ
		fault   string // part of a fault
	}{
		"queue row": {drop(tableQueue, func(c *auditedCrawl, key, value []byte) bool { return !heldRow(c, key, value) }),
			"queued added", "items waiting by priority, its row says"},
		"leased row":  {drop(tableQueue, heldRow), "leased added", ""},
		"delayed row": {drop(tableDelayed, nil), "queued delayed added", "items are delayed"},
		"lease row":   {drop(tableLease, nil), "queued leased", "items waiting by priority"},
		"failed row":  {drop(tableFailed, nil), "failed outcomes added", "outcomes are failures"},
		"done row":    {drop(tableOutcome, isDone), "done added", ""},
		"host row":    {drop(tableHost, nil), "", "its host has no row"},
		"due row":     {drop(tableDue, nil), "", "not among the hosts that will be due"},
		"extra due row": {func(t *testing.T, c *auditedCrawl) { c.set(t, appendDueKey(nil, 1, "h0.test"), nil) },
			"", "hosts will be due"},
		"failed row with a wrong number": {func(t *testing.T, c *auditedCrawl) {
			key, value := c.first(t, tableFailed, nil)
			c.remove(t, key)
			c.set(t, append(key[:len(key)-8], 0xff, 0, 0, 0, 0, 0, 0, 0), value)
		}, "", "points elsewhere"},
		"host's waiting": {hostAltered(func(h *host) { h.waiting[frontier.PriorityPage]++ }),
			"", "items waiting by priority, its row says"},
		"host's head":     {hostAltered(func(h *host) { h.head[frontier.PriorityPage] = math.MaxInt64 }), "", "before the head"},
		"host's delayed":  {hostAltered(func(h *host) { h.delayed++ }), "", "the rows of their hosts say"},
		"host's pages":    {hostAltered(func(h *host) { h.counts.Pages++ }), "", "the counts of all hosts"},
		"host's errors":   {hostAltered(func(h *host) { h.counts.Causes = map[string]uint64{"timeout": 1 << 20} }), "", "the counts of all hosts"},
		"counter queued":  {counterAltered(func(s *frontier.Stats) { s.Queued-- }), "queued", ""},
		"counter delayed": {counterAltered(func(s *frontier.Stats) { s.Delayed++ }), "delayed", ""},
		"counter leased":  {counterAltered(func(s *frontier.Stats) { s.Leased++ }), "leased", ""},
		"counter failed":  {counterAltered(func(s *frontier.Stats) { s.Failed-- }), "failed", "the counts of all hosts"},
		"counter done":    {counterAltered(func(s *frontier.Stats) { s.Done++ }), "done", "the counts of all hosts"},
		"counter added":   {counterAltered(func(s *frontier.Stats) { s.Added++ }), "added", ""},
		"counter hosts":   {counterAltered(func(s *frontier.Stats) { s.Hosts++ }), "hosts", ""},
		"counter added by 100": {counterAltered(func(s *frontier.Stats) { s.Added, s.Queued = s.Added+100, s.Queued+100 }),
			"queued added fill", ""},
		"filter": {func(t *testing.T, c *auditedCrawl) { zeroHalf(t, c.Store) }, "filter fill", ""},
	} {
		t.Run(name, func(t *testing.T) {
			seed, _ := suite.FirstSeed(*seed, 1)
			t.Logf("replay with -seed=%d", seed)
			c := newAuditedCrawl(t, rand.New(rand.NewPCG(seed, 0)))
			test.corrupt(t, c)
			r, err := c.Recount(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, term := range strings.Fields(test.terms) {
				if !strings.Contains(" "+strings.Join(differ(r), " ")+" ", " "+term+" ") {
					t.Errorf("term %s balances; want %q not to balance, got %q", term, test.terms, differ(r))
				}
			}
			if name != "host row" && len(differ(r)) != len(strings.Fields(test.terms)) {
				t.Errorf("terms %q do not balance, want %q", differ(r), test.terms)
			}
			if faults := strings.Join(r.Faults, "\n"); !strings.Contains(faults, test.fault) || (test.fault == "") != (faults == "") {
				t.Errorf("faults are %q, want one with %q, or none if that is empty", faults, test.fault)
			}
			c.guard.fail(errKilled) // the store's memory and its rows differ now
		})
	}
}

// TestRecountSums: the sum in a Recount changes if a record belongs to another URL, although
// the number of records is the same.
func TestRecountSums(t *testing.T) {
	t.Parallel()
	c := newAuditedCrawl(t, rand.New(rand.NewPCG(1, 0)))
	key, value := c.first(t, tableOutcome, func(_, value []byte) bool {
		o, _ := decodeOutcome(value)
		return o.outcome == frontier.OK
	})
	c.remove(t, key)
	key[1]++
	c.set(t, key, value)
	r, err := c.Recount(t.Context())
	if err != nil || r.Finished.Count != c.done.Count || r.Finished.Sum == c.done.Sum {
		t.Errorf("Finished is %v, want the count of %v and a sum that differs (error %v)", r.Finished, c.done, err)
	}
}

// TestRecountOfAFullFilter: the estimate does not count the URLs that the filter wrongly
// claimed to contain.
func TestRecountOfAFullFilter(t *testing.T) {
	t.Parallel()
	s := opened(t, Config{Dir: "crawl", FS: vfs.NewMem(),
		Filter: membits.Config{Capacity: 2000, FPR: 0.05, Growth: membits.GrowthOff, Shards: 4}}, Open)
	defer s.Close()
	got := answers(t, s, frontier.Bulk, 0, 4000)
	if lost := got[frontier.Seen]; lost < 200 { // about 300 are expected
		t.Fatalf("%d of 4,000 new URLs are answered Seen, want at least 200 false positives", lost)
	}
	if answers(t, s, frontier.Exact, 4000, 6000); stats(t, s).Recovered < 300 { // about 600 are expected
		t.Fatalf("%d exact URLs were false positives of the filter, want at least 300", stats(t, s).Recovered)
	}
	r, err := s.Recount(t.Context())
	if terms := differ(r); err != nil || terms != nil || r.Faults != nil {
		t.Errorf("terms %v do not balance: added is estimated as %.0f ± %.0f, the counter says %d (error %v)",
			terms, r.Added, r.AddedErr, r.Counters.Added, err)
	}
}

// zeroHalf replaces a store's filter by a copy in which half of the bits are cleared.
func zeroHalf(t *testing.T, s *Store) {
	t.Helper()
	var file bytes.Buffer
	if _, err := s.filter.(*membits.Filter).Snapshot(s.card.ID).WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	bloomtest.ZeroHalf(file.Bytes())
	filter, err := membits.Read(&file, s.cfg.Filter, s.card.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.submit(t.Context(), &op{grant: func(g *group) error { s.filter = filter; return nil }}); err != nil {
		t.Fatal(err)
	}
}
