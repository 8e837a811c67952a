package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// exactConfig returns the config of a crawl with an exact set in memory, which is not told how items end.
func exactConfig(server *servers.RedisServer) Config {
	cfg := config(server)
	cfg.Exact, cfg.OpenOutput = newClient(exacttest.NewMemory(exacttest.Options{})), countOutput
	return cfg
}

func newClient(set exact.Set) *exact.Client {
	rules, err := exact.ParseTexts([]string{"all"})
	if err != nil {
		panic(err)
	}
	return &exact.Client{Set: exact.NewBreaker(set, time.Nanosecond), Rules: rules, End: func([]exact.Finished) {}}
}

// asExact returns copies of items as exact items.
func asExact(items []frontier.Offer) []frontier.Offer {
	items = slices.Clone(items)
	for i := range items {
		items[i].Class = frontier.Exact
	}
	return items
}

// decided returns the same decision for each of the items that are exact, and none for bulk items.
func decided(kind exact.Kind, round uint32, items []frontier.Offer) []exact.Decision {
	each := make([]exact.Decision, len(items))
	for i := range items {
		if items[i].Class != frontier.Bulk {
			each[i] = exact.Decision{Kind: kind, Round: round}
		}
	}
	return each
}

// mustAddDecided adds items as exact items with a decision that the set of the store did not make.
func mustAddDecided(t testing.TB, s *Store, kind exact.Kind, round uint32, items []frontier.Offer) []frontier.Verdict {
	t.Helper()
	items = asExact(items)
	verdicts, err := s.AddDecided(context.WithoutCancel(t.Context()), items, decided(kind, round, items))
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// strayPrints returns the differences between partition.exact and the exact items, and
// those of later rounds, in queues and leases. The crawl must not change meanwhile.
func strayPrints(ctx context.Context, s *Store) (stray []string, err error) {
	waiting := make(map[bloomstore.Fingerprint]string)
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased} {
		err := s.List(ctx, state, "", func(item frontier.Item) bool {
			if s.exactPrint(&item) != "" {
				waiting[item.Fingerprint] = item.URL
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	for _, p := range s.parts {
		prints, err := s.client.SMembers(ctx, p.exact).Result()
		if err != nil {
			return nil, err
		}
		for _, print := range prints {
			fp := bloomstore.Fingerprint([]byte(print))
			if _, ok := waiting[fp]; !ok {
				stray = append(stray, fmt.Sprintf("%x does not wait", fp))
			}
			delete(waiting, fp)
		}
	}
	return slices.AppendSeq(stray, maps.Values(waiting)), nil
}

func wantNoStray(t *testing.T, s *Store) {
	t.Helper()
	if stray, err := strayPrints(t.Context(), s); err != nil || len(stray) > 0 {
		t.Errorf("the sets of waiting exact items differ from the queues: %q, %v", stray, err)
	}
}

// TestExactSetIsFixed: workers that disagree on whether there is an exact set
// are refused. Commands that only inspect a crawl adopt its setting.
func TestExactSetIsFixed(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for _, has := range []bool{false, true} {
		cfg := config(server)
		clients := map[bool]*exact.Client{true: new(exact.Client)}
		cfg.Name, cfg.Exact = fmt.Sprintf("exact-%t", has), clients[has]
		openStore(t, cfg)
		openStore(t, cfg)
		cfg.Exact = clients[!has]
		want := map[bool]string{true: "with an exact set", false: "without an exact set"}[has]
		if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrParamsMismatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with an exact set: %t = %v, want %v with %q", !has, err, frontier.ErrParamsMismatch, want)
		}
		looking, err := Inspect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if (looking.cfg.Exact != nil) != has {
			t.Errorf("after Inspect there is an exact set: %t, want the crawl's %t", !has, has)
		}
		if err := looking.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWrongDecisionsAreRefused: AddDecided fails and changes nothing if an exact item has no decision,
// or if a bulk item, or a crawl without an exact set, has a decision.
func TestWrongDecisionsAreRefused(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	beside, alone := openStore(t, exactConfig(server)), config(server)
	alone.Name = "alone"
	page, isNew := testPages("a.test", 0, 1)[0], exact.Decision{Kind: exact.New}
	for name, c := range map[string]struct {
		s        *Store
		class    frontier.Class
		decision exact.Decision
	}{
		"exact without":       {beside, frontier.Exact, exact.Decision{}},
		"bulk with":           {beside, frontier.Bulk, isNew},
		"without a set, with": {openStore(t, alone), frontier.Exact, isNew},
	} {
		item := page
		item.Class = c.class
		if verdicts, err := c.s.AddDecided(t.Context(), []frontier.Offer{page, item}, []exact.Decision{{}, c.decision}); err == nil {
			t.Errorf("%s: %v, want an error", name, verdicts)
		}
		if stats := wantBooks(t, c.s); stats.Found != 0 {
			t.Errorf("%s: the books are %+v, want nothing found", name, stats.Books)
		}
	}
}

// TestFullQueueRefusesDecided: a full queue refuses a link with the decision New, like any
// other link. But a link that is queued already is answered Seen, so that the exact set
// does not revert its decision.
func TestFullQueueRefusesDecided(t *testing.T) {
	t.Parallel()
	cfg := exactConfig(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy = policy.NewLive(&policy.Policy{MaxQueued: 10}).Load
	s := openStore(t, cfg)
	mustAddDecided(t, s, exact.New, 0, testPages("a.test", 0, 10))
	items := asExact(testPages("a.test", 5, 15))
	for _, kind := range []exact.Kind{exact.New, exact.Promoted, exact.Again} {
		got, err := s.offer(t.Context(), items, decided(kind, 1, items), true)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got.verdicts {
			want := frontier.Verdict{Answer: frontier.Seen}
			if i >= 5 {
				want = frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonQueueFull}
			}
			if v != want {
				t.Errorf("decision %d, link %d: answer %v, reason %q, want %v, %q",
					kind, i, v.Answer, v.Reason, want.Answer, want.Reason)
			}
		}
	}
	if got := answersOf(mustAddDecided(t, s, exact.Again, 1, testPages("a.test", 5, 15))); got[frontier.Added] != 5 {
		t.Errorf("offers that are no links are answered %v, want 5 added", got)
	}
	wantNoStray(t, s)
}

// TestLimitsOfOneURL: two offers of one URL are decided together. A limit refuses the first, but
// it does not apply to the second.
func TestLimitsOfOneURL(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for name, c := range map[string]struct {
		maxQueued uint64
		reason    frontier.Reason
		second    ask
	}{
		"seed behind link":       {5, frontier.ReasonQueueFull, ask{}},
		"owed link behind other": {0, frontier.ReasonHostLimit, ask{owed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := exactConfig(server)
			cfg.Name = fmt.Sprintf("test-%d", c.maxQueued)
			cfg.Policy = policy.NewLive(&policy.Policy{MaxQueued: c.maxQueued, MaxPerHost: 10}).Load
			s := openStore(t, cfg)
			first := ask{link: true}
			if c.reason == frontier.ReasonHostLimit {
				mustAdd(t, s, testPages("a.test", 1, 11))
			} else {
				mustAdd(t, s, testPages("fill.test", 0, 10))
			}
			offer := asExact(testPages("a.test", 0, 1))[0]
			var both []*offering
			for _, a := range []ask{first, c.second} {
				a.print, a.host = s.hasher.Fingerprint(offer.URL), s.hasher.Fingerprint(offer.Host)
				a.exact, a.decision, a.part, a.item = true, exact.New, s.partition(offer.Host), offer.Item(a.print)
				o := newOffering(1)
				o.asks = append(o.asks, a)
				both = append(both, o)
			}
			g := &group{s: s, node: s.nodes.single, reader: redisbits.NewReader(s.nodes.single.client)}
			g.decide(t.Context(), both)
			if got := both[0].asks[0]; got.err != nil || got.verdict.Reason != c.reason {
				t.Errorf("the first offer: %+v, %v, want it refused: %s", got.verdict, got.err, c.reason)
			}
			if got := both[1].asks[0]; got.err != nil || got.verdict.Answer != frontier.Added {
				t.Errorf("the second offer: %+v, %v, want it added", got.verdict, got.err)
			}
		})
	}
}

// TestBulkThenDecided: one call offers a URL as a bulk item and as an exact item, and
// then once more as each of them. The first exact item is queued, too. An item with the decision
// Promoted is answered Seen only if partition.exact has its fingerprint, and a bulk item adds
// nothing to that set.
func TestBulkThenDecided(t *testing.T) {
	t.Parallel()
	s := openStore(t, exactConfig(servers.Redis(t, servers.RedisOptions{})))
	page := testPages("a.test", 0, 1)
	items := slices.Concat(page, asExact(page), page, asExact(page))
	verdicts, err := s.AddDecided(t.Context(), items, decided(exact.Promoted, 0, items))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if want := []frontier.Answer{frontier.Added, frontier.Added, frontier.Seen, frontier.Seen}[i]; v.Answer != want {
			t.Errorf("offer %d is answered %v, want %v", i, v.Answer, want)
		}
	}
	if stats := wantBooks(t, s); stats.Queued != 2 || stats.Promoted != 1 {
		t.Errorf("the books are %+v, %d promoted, want 2 queued, 1 promoted", stats.Books, stats.Promoted)
	}
	wantNoStray(t, s)
}

// TestAuditOfDecided: items that were queued although the filter claimed to contain them do not
// count as missing from the filter.
func TestAuditOfDecided(t *testing.T) {
	t.Parallel()
	cfg := exactConfig(servers.Redis(t, servers.RedisOptions{}))
	cfg.Partitions = 1
	s := openStore(t, cfg)
	bulk := testPages("a.test", 0, 2000)
	mustAdd(t, s, bulk)
	mustAddDecided(t, s, exact.New, 0, bulk[:500])
	mustAddDecided(t, s, exact.Promoted, 0, bulk[500:1000])
	mustAddDecided(t, s, exact.Again, 3, bulk[1000:1500])
	mustAddDecided(t, s, exact.Again, 3, testPages("a.test", 2000, 2500))
	stats := wantBooks(t, s)
	if stats.Added != 4000 || stats.Recovered != 500 || stats.Promoted != 500 {
		t.Errorf("%d added, %d recovered, %d promoted, want 4000, 500, 500", stats.Added, stats.Recovered, stats.Promoted)
	}
	audit, err := s.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if off := audit.Added - 4000; off > 5*audit.AddedErr || off < -5*audit.AddedErr {
		t.Errorf("the audit estimates %.0f ± %.0f added URLs, want 4000", audit.Added, audit.AddedErr)
	}
}

// TestStandingAnswers: decided links whose answers might not be valid any more are offered
// again with the same decision. All other decided links are offered with the decision
// Known.
func TestStandingAnswers(t *testing.T) {
	lasting, over := new(epoch), new(epoch)
	for _, ep := range []*epoch{lasting, over} {
		ep.node = new(node)
	}
	lasting.node.epoch.Store(lasting)
	sure, doubtful := new(partition), new(partition)
	isNew, full := exact.Decision{Kind: exact.New}, frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonQueueFull}
	items := []exact.Decision{isNew, isNew, isNew, {}, {Kind: exact.Known}}
	before := answers{
		verdicts: []frontier.Verdict{{Answer: frontier.Added}, {Answer: frontier.Added}, full, {}, {Answer: frontier.Seen}},
		parts:    []*partition{sure, doubtful, doubtful, sure, nil},
		epochs:   map[*partition]*epoch{sure: lasting, doubtful: over},
	}
	again, stand := new(Store).validAnswers(items, before)
	if want := []bool{true, false, true, false, true}; !slices.Equal(stand, want) {
		t.Errorf("answers that are still valid: %v, want %v", stand, want)
	}
	for i, want := range []exact.Kind{exact.Known, exact.New, exact.Known, exact.Undecided, exact.Known} {
		if again[i].Kind != want {
			t.Errorf("item %d is offered again with decision %d, want %d", i, again[i].Kind, want)
		}
	}
	if items[0].Kind != exact.New {
		t.Error("the caller's decisions were changed")
	}
}

// TestRebuildBesideExactSet: after a rebuild, partition.exact contains the exact items in
// queues and leases, and no others.
func TestRebuildBesideExactSet(t *testing.T) {
	t.Parallel()
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprintf("bare=%t", bare), func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t, servers.RedisOptions{})
			cfg := exactConfig(server)
			s := openStore(t, cfg)
			items := testPages("a.test", 0, 1100)
			mustAddDecided(t, s, exact.New, 0, items)
			grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
			if err != nil || len(grant.Leases) != 1 {
				t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
			}
			done := finish(grant.Leases[0].Items[0])
			if err := s.Complete(t.Context(), grant.Leases[0].ID, []frontier.Completion{done}, frontier.HostUpdate{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			p, admin := s.partition("a.test"), server.Client()
			stored := func(offer frontier.Offer) []byte { print := s.hasher.Fingerprint(offer.URL); return print[:] }
			admin.Del(t.Context(), p.chain().SegmentKey(0, 0))
			admin.SRem(t.Context(), p.exact, stored(items[1]), stored(items[2]))
			admin.SAdd(t.Context(), p.exact, "a stray one 0123")
			if bare {
				admin.Del(t.Context(), p.meta)
			}
			if _, err := Rebuild(t.Context(), cfg, recordsOf(nil)); err != nil {
				t.Fatal(err)
			}
			again := openStore(t, cfg)
			wantNoStray(t, again)
			wantBooks(t, again)
			if got := answersOf(mustAddDecided(t, again, exact.New, 0, items)); got[frontier.Added] != 1 || got[frontier.Seen] != 1099 {
				t.Errorf("offered again: %v, want the done item added, and 1099 seen", got)
			}
			wantBooks(t, again)
		})
	}
}

// TestLostDecisions does the same as TestLostReplies for items about which an exact set has decided.
func TestLostDecisions(t *testing.T) {
	t.Parallel()
	c := newLostReply(t, exactConfig)
	// Two items in one call of the script. One of them is known.
	items := asExact(testPages("a.test", 0, 2))
	mustAdd(c, c.Store, items[:1])
	c.lose(addScript, func(ctx context.Context) error {
		_, err := c.AddDecided(ctx, items, decided(exact.New, 0, items))
		return err
	})
	if got := answersOf(mustAddDecided(c, c.Store, exact.New, 0, items)); got[frontier.Seen] != len(items) {
		c.Errorf("offered again: %v, want all seen", got)
	}
	c.want(fieldQueued, 2, fieldRecovered, 0)
	wantNoStray(t, c.Store)
	wantBooks(t, c.Store)
}

// TestLostExactCompletion: a completion of an exact item whose answer was lost is repeated.
func TestLostExactCompletion(t *testing.T) {
	for _, end := range []bool{false, true} {
		t.Run(fmt.Sprintf("end=%t", end), func(t *testing.T) {
			t.Parallel()
			c := newLostReply(t, exactConfig)
			mustAddDecided(c, c.Store, exact.New, 0, testPages("a.test", 0, 3))
			l := c.leaseOf("a.test")
			done := finish(l.Items[0])
			done.Links = slices.Concat(asExact(testPages("b.test", 3, 5)), testPages("b.test", 5, 7))
			complete := func(ctx context.Context) error {
				return c.Complete(ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: end})
			}
			c.lose(completeScript, complete)
			for range 2 {
				if err := complete(c.Context()); err != nil {
					c.Fatal(err)
				}
			}
			c.want(fieldDone, 1, fieldOther, 0)
			wantNoStray(t, c.Store)
			wantBooks(t, c.Store)
		})
	}
}
