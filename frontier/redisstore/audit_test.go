package redisstore

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestRecountNamesCorruption damages the structures and the counters one by one. The recount
// must report the numbers and structures that contradict the damaged one, and no others.
func TestRecountNamesCorruption(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Partitions = 2
	s := openStore(t, cfg)
	variety(t, s)
	wantBooks(t, s)
	admin := server.Client()
	ctx := t.Context()
	// variety ends every second lease. The order of the hosts in its leases is random.
	var free, leased string
	for _, host := range []string{"h0.test", "h1.test", "h2.test", "h3.test", "h4.test", "h5.test"} {
		if admin.Exists(ctx, s.partition(host).active(host)).Val() == 1 {
			leased = host
		} else {
			free = host
		}
	}
	if free == "" || leased == "" {
		t.Fatalf("a host without a lease is %q, a host with a lease %q, want both", free, leased)
	}
	atFree, atLeased := s.partition(free), s.partition(leased)
	member := func(p *partition, host string) string {
		for _, m := range admin.ZRange(ctx, p.delayed, 0, -1).Val() {
			if name, _ := hostOfDelayed(m); name == host {
				return m
			}
		}
		t.Fatalf("%s has nothing delayed", host)
		return ""
	}
	field := func(kind string) string {
		for _, f := range admin.HKeys(ctx, atLeased.active(leased)).Val() {
			if strings.Trim(f, "0123456789") == kind && f != kind {
				return f
			}
		}
		t.Fatalf("the lease of %s has no field %q", leased, kind)
		return ""
	}
	count := func(counter string) func() {
		return func() { admin.HIncrBy(ctx, atFree.meta, counter, 1) }
	}
	for name, c := range map[string]struct {
		damage func()
		want   string
	}{
		"queue":                   {func() { admin.LPop(ctx, atFree.queue(1, free)) }, "queued"},
		"due":                     {func() { admin.ZRem(ctx, atFree.due, free) }, "never due"},
		"due and leased":          {func() { admin.ZAdd(ctx, atLeased.due, redis.Z{Member: leased}) }, "due and leased"},
		"due without items":       {func() { admin.Del(ctx, atFree.queue(1, free)) }, "queued due and has no items"},
		"deadline":                {func() { admin.ZRem(ctx, atLeased.leased, leased) }, "no deadline"},
		"delayed":                 {func() { admin.ZRem(ctx, atFree.delayed, member(atFree, free)) }, "queued delayed"},
		"item of a lease":         {func() { admin.HDel(ctx, atLeased.active(leased), field("")) }, "leased"},
		"retried item of a lease": {func() { admin.HDel(ctx, atLeased.active(leased), field("r")) }, "queued delayed"},
		"lease":                   {func() { admin.Del(ctx, atLeased.active(leased)) }, "queued leased delayed no lease"},
		"failed":                  {func() { admin.LPop(ctx, atFree.failed(free)) }, "failed"},
		"failed hosts":            {func() { admin.SRem(ctx, atFree.failedHosts, free) }, "failed"},
		"counter of queued":       {count(fieldQueued), "queued added"},
		"negative counter":        {func() { admin.HSet(ctx, atFree.meta, fieldPages, -1) }, "negative"},
		"counter of leased":       {count(fieldLeased), "leased added"},
		"counter of failed":       {count(fieldFailed), "failed added"},
		"counter of done":         {count(fieldDone), "added"},
		"counter of hosts":        {count(fieldHosts), "hosts"},
		"counter of seen":         {count(fieldSeen), "found"},
		"counter of added":        {count(s.added), "added"},
	} {
		t.Run(name, func(t *testing.T) {
			dump := dumpAll(t, admin)
			c.damage()
			if got := wrongTerms(t, s); got != c.want {
				t.Errorf("the recount names %q, want %q", got, c.want)
			}
			restoreAll(t, admin, dump)
			if got := wrongTerms(t, s); got != "" {
				t.Fatalf("after the repair the recount names %q, want nothing", got)
			}
		})
	}
}

// contradictions returns the terms in which a recount differs from the counters, and the
// structures that contradict each other.
func contradictions(r *recount) (wrong []string) {
	differ := func(term string, a, b uint64) {
		if a != b {
			wrong = append(wrong, term)
		}
	}
	differ("queued", r.Queued, r.Counters.Queued)
	differ("leased", r.Leased, r.Counters.Leased)
	differ("failed", r.Failed, r.Counters.Failed)
	differ("delayed", r.Delayed, r.Counters.Delayed)
	differ("hosts", r.Hosts, r.Counters.Hosts)
	if err := r.Counters.Balance(); err != nil {
		wrong = append(wrong, strings.Fields(err.Error())[1])
	}
	return append(wrong, r.Faults...)
}

// wrongTerms returns the contradictions of a crawl, shortened.
func wrongTerms(t *testing.T, s *Store) string {
	t.Helper()
	r, err := s.recount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := contradictions(&r)
	for i := range wrong {
		for _, what := range []string{"never due", "due and leased", "due and has no items", "no deadline", "no lease"} {
			if strings.Contains(wrong[i], what) {
				wrong[i] = what
			}
		}
		if strings.HasSuffix(wrong[i], `counter "pages" is -1`) {
			wrong[i] = "negative"
		}
	}
	return strings.Join(wrong, " ")
}

// dumpAll returns everything in a database, for restoreAll.
func dumpAll(t *testing.T, admin *redis.Client) map[string]string {
	t.Helper()
	dump := make(map[string]string)
	for _, key := range admin.Keys(t.Context(), "{*").Val() {
		dump[key] = admin.Dump(t.Context(), key).Val()
	}
	return dump
}

func restoreAll(t *testing.T, admin *redis.Client, dump map[string]string) {
	t.Helper()
	for _, key := range admin.Keys(t.Context(), "{*").Val() {
		admin.Del(t.Context(), key)
	}
	for key, value := range dump {
		if err := admin.RestoreReplace(t.Context(), key, 0, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAuditCountsTheFilter: the audit estimates the number of keys in the filter
// without the filter's counter, and notices cleared bits.
func TestAuditCountsTheFilter(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Partitions = 1
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 8000))
	sigmas := func() float64 {
		audit, err := s.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return math.Abs(audit.Added-float64(audit.Counters.Added)) / audit.AddedErr
	}
	if off := sigmas(); off > 5 { // this happens by chance once in a million runs
		t.Errorf("the estimate is %.1fσ off, want at most 5σ", off)
	}
	key := s.parts[0].chain().SegmentKey(0, 0)
	length := server.Client().StrLen(t.Context(), key).Val()
	if err := server.Client().SetRange(t.Context(), key, length/2, string(make([]byte, length/2))).Err(); err != nil {
		t.Fatal(err)
	}
	if off := sigmas(); off < 10 {
		t.Errorf("with half of the bits gone the estimate is %.1fσ off, want at least 10σ", off)
	}
}

// TestProbeFilter: the share of random fingerprints that the filter claims to contain is about
// the rate that Stats computes from the filter's fill.
func TestProbeFilter(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Capacity, cfg.FPR, cfg.Growth = 4000, 0.05, bloomstore.GrowthOff
	s := openStore(t, cfg)
	const probes = 20_000
	if claimed, asked, err := s.Probe(t.Context(), probes); err != nil || asked != probes || claimed != 0 {
		t.Errorf("an empty filter claims %d of %d (%v), want 0 of %d", claimed, asked, err, probes)
	}
	for h := range 40 {
		mustAdd(t, s, testPages(strings.Repeat("h", h+1)+".test", 0, 100))
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claimed, asked, err := s.Probe(t.Context(), probes)
	p := stats.Filter.FPR
	if limit := 5 * math.Sqrt(p*(1-p)/probes); err != nil || asked != probes || math.Abs(float64(claimed)/probes-p) > limit+0.05*p {
		t.Errorf("the filter claims %d of %d fingerprints (%v), want a share of %.4f ± %.4f", claimed, asked, err, p, limit)
	}
	layers, err := s.FilterLayers(t.Context())
	if err != nil || len(layers) != 1 {
		t.Fatalf("FilterLayers = %+v (%v), want one layer", layers, err)
	}
	if l := layers[0]; l.Keys != stats.Filter.Keys || l.Capacity < 4000 || l.Fill < 0.1 || l.Fill > 0.9 || l.Hashes == 0 {
		t.Errorf("the layer is %+v, which does not agree with the filter's statistics %+v", l, stats.Filter)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, asked, err := s.Probe(ctx, 1<<40); err != nil || asked == 1<<40 {
		t.Errorf("Probe of 1<<40 fingerprints in 50ms asked %d, %v, want fewer and no error", asked, err)
	}
}

// TestRecountOfRetriedUnderLease: an item fails, and Retry queues it again while the lease
// continues. The item waits for the end of the lease, and does not count as delayed.
func TestRecountOfRetriedUnderLease(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	mustAdd(t, s, testPages("a.test", 0, 3))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil {
		t.Fatal(err)
	}
	failed := finish(grant.Leases[0].Items[0])
	failed.Outcome = frontier.Network
	if err := s.Complete(t.Context(), grant.Leases[0].ID, []frontier.Completion{failed}, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Retry(t.Context(), frontier.Failures{Host: "a.test"}); err != nil || n != 1 {
		t.Fatalf("Retry = %d, %v, want 1", n, err)
	}
	if stats := wantBooks(t, s); stats.Queued != 1 || stats.Delayed != 0 {
		t.Errorf("the books are %+v, %d delayed, want 1 queued, 0 delayed", stats.Books, stats.Delayed)
	}
}

// TestAuditOfOverfilledFilter: a filter of a few blocks gets six times as many keys as its
// capacity, so it wrongly claims to contain many new keys. Bulk items with such keys are lost.
// Exact items are queued nevertheless. In both cases, the audit's estimate of added items is
// right.
func TestAuditOfOverfilledFilter(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{120, 2000} {
		for _, isExact := range []bool{false, true} {
			cfg := exactConfig(servers.Redis(t, servers.RedisOptions{}))
			cfg.Partitions, cfg.Capacity, cfg.FPR, cfg.Growth = 1, uint64(keys), 0.01, bloomstore.GrowthOff
			s := openStore(t, cfg)
			items := testPages("a.test", 0, 6*keys)
			for some := range slices.Chunk(items, 20) { // items of one call are tested before any of them is added
				if isExact {
					mustAddDecided(t, s, exact.New, 0, some)
				} else {
					mustAdd(t, s, some)
				}
			}
			audit, err := s.Audit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// More than 5σ occurs by chance once in some million runs.
			if off := math.Abs(audit.Added-float64(audit.Counters.Added)) / audit.AddedErr; off > 5 {
				t.Errorf("capacity %d, exact=%t: added is estimated as %.0f ± %.0f, which is %.1fσ off the counter %d",
					keys, isExact, audit.Added, audit.AddedErr, off, audit.Counters.Added)
			}
		}
	}
}
