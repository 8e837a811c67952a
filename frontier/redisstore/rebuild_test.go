package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// variety makes a crawl that uses every structure. Of each of six hosts, eight URLs are
// done, one has failed, two are delayed, and the others are queued or leased. variety
// returns all URLs, and those that are done.
func variety(t *testing.T, s *Store) (all, done []frontier.Offer) {
	t.Helper()
	for n := range 6 {
		host := fmt.Sprintf("h%d.test", n)
		items := testPages(host, 0, 60)
		items[0].Class, items[0].Priority = frontier.Exact, frontier.PrioritySeed
		items[1].Delay = 1 << 50
		all = append(all, items...)
	}
	mustAdd(t, s, all)
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(6)})
	if err != nil || len(grant.Leases) != 6 {
		t.Fatalf("Lease = %d leases, %v, want 6", len(grant.Leases), err)
	}
	for i, l := range grant.Leases {
		var completions []frontier.Completion
		for _, item := range l.Items[:8] {
			completions = append(completions, finish(item))
			done = append(done, item.Offer())
		}
		failed := finish(l.Items[8])
		failed.Outcome = frontier.Network
		again := frontier.Completion{Item: l.Items[9].Fingerprint, Disposition: frontier.Retry, RetryIn: 1 << 50}
		end := frontier.HostUpdate{End: i%2 == 0, Blob: []byte("blob")}
		if err := s.Complete(t.Context(), l.ID, append(completions, failed, again), end); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Admit(t.Context(), []string{"h1.test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(t.Context(), []frontier.QuotaKey{{Group: "test", Key: "h1.test"}}, 9); err != nil {
		t.Fatal(err)
	}
	return all, done
}

// wantBooks checks that the books of a crawl balance and agree with its
// structures.
func wantBooks(t *testing.T, s *Store) frontier.Stats {
	t.Helper()
	r, err := s.recount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := contradictions(&r); len(wrong) > 0 {
		t.Errorf("the recount finds contradictions %q: %+v", wrong, r)
	}
	return r.Counters
}

// recordsOf returns the done items as records for Rebuild.
func recordsOf(done []frontier.Offer) iter.Seq2[Ended, error] {
	return func(yield func(Ended, error) bool) {
		for _, offer := range done {
			if !yield(Ended{Item: offer.Item(bloomstore.Fingerprint{}), Outcome: frontier.OK, Status: 200}, nil) {
				return
			}
		}
	}
}

// TestRebuildOfDamagedFilter damages the filter of a crawl in each possible
// way. The crawl stops, says why, cannot be opened, and continues after a
// rebuild.
func TestRebuildOfDamagedFilter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(t *testing.T, admin *redis.Client, p *partition)
		want   error
		bare   int
	}{
		"segment evicted": {func(t *testing.T, admin *redis.Client, p *partition) {
			admin.Del(t.Context(), p.chain().SegmentKey(0, 0))
		}, frontier.ErrFilterLost, 0},
		"segment cut": {func(t *testing.T, admin *redis.Client, p *partition) {
			key := p.chain().SegmentKey(0, 0)
			admin.Set(t.Context(), key, admin.GetRange(t.Context(), key, 0, 99).Val(), 0)
		}, frontier.ErrFilterLost, 0},
		"segment replaced": {func(t *testing.T, admin *redis.Client, p *partition) {
			key := p.chain().SegmentKey(0, 0)
			admin.SetRange(t.Context(), key, 20, "foreign content")
		}, frontier.ErrParamsMismatch, 0},
		"segment of another type": {func(t *testing.T, admin *redis.Client, p *partition) {
			admin.Del(t.Context(), p.chain().SegmentKey(0, 0))
			admin.RPush(t.Context(), p.chain().SegmentKey(0, 0), "x")
		}, frontier.ErrFilterLost, 0},
		"record evicted": {func(t *testing.T, admin *redis.Client, p *partition) {
			admin.Del(t.Context(), p.meta)
		}, frontier.ErrFilterLost, 1},
		"record and counts of hosts evicted": {func(t *testing.T, admin *redis.Client, p *partition) {
			admin.Del(t.Context(), append(admin.Keys(t.Context(), p.tag+"c*").Val(), p.meta)...)
		}, frontier.ErrFilterLost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t, servers.RedisOptions{})
			cfg := config(server)
			cfg.SeenCache = 0
			s := openStore(t, cfg)
			all, done := variety(t, s)
			before := wantBooks(t, s)
			c.damage(t, server.Client(), s.partition("h0.test"))

			// Headers are checked once a second.
			eventually(t, "an error of the filter", func() bool {
				_, err := s.Add(t.Context(), testPages("h0.test", 1000, 1010))
				if err != nil && !errors.Is(err, c.want) {
					t.Fatalf("Add = %v, want %v", err, c.want)
				}
				return err != nil
			})
			if _, err := Rebuild(t.Context(), cfg, recordsOf(nil)); !errors.Is(err, frontier.ErrLocked) || !strings.Contains(err.Error(), s.self.Name) {
				t.Errorf("Rebuild beside a worker = %v, want %v that names it", err, frontier.ErrLocked)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(t.Context(), cfg); !errors.Is(err, c.want) {
				t.Errorf("Open = %v, %v, want %v", s, err, c.want)
			}

			// The first Rebuild is interrupted. A filter that is not complete must not
			// be used.
			half := errors.New("half")
			_, err := Rebuild(t.Context(), cfg, func(yield func(Ended, error) bool) { yield(Ended{}, half) })
			if !errors.Is(err, half) {
				t.Fatalf("Rebuild = %v, want %v", err, half)
			}
			if s, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrFilterLost) {
				t.Errorf("Open after half a Rebuild = %v, %v, want %v", s, err, frontier.ErrFilterLost)
			}
			made, err := Rebuild(t.Context(), cfg, recordsOf(done))
			if err != nil || made.Partitions != c.bare {
				t.Fatalf("Rebuild = %+v, %v, want %d partitions without counters", made, err, c.bare)
			}

			again := openStore(t, cfg)
			after := wantBooks(t, again)
			if c.bare == 0 && (after.Added < before.Added || after.Done != before.Done) {
				t.Errorf("the books were %+v, and after Rebuild they are %+v, want nothing lost", before.Books, after.Books)
			}
			err = again.Hosts(t.Context(), frontier.HostQuery{}, func(h frontier.HostState) bool {
				if h.Counts.Done != 8 || h.Counts.Failed != 1 || h.Counts.Ago == 0 {
					t.Errorf("after Rebuild %s has counts %+v, want 8 done, 1 failed", h.Host, h.Counts)
				}
				return true
			})
			if err != nil {
				t.Error(err)
			}
			if after.Added < uint64(len(all)) || made.URLs != after.Added {
				t.Errorf("%d URLs are added, Rebuild reported %d, want the same number, at least %d",
					after.Added, made.URLs, len(all))
			}
			if got := answersOf(mustAdd(t, again, all)); got[frontier.Seen] != len(all) {
				t.Errorf("after Rebuild known URLs are answered %v, want all %d seen", got, len(all))
			}
			if got := answersOf(mustAdd(t, again, testPages("h0.test", 5000, 5100))); got[frontier.Added] != 100 {
				t.Errorf("after Rebuild new URLs are answered %v, want 100 added", got)
			}
			wantBooks(t, again)
		})
	}
}

// TestRebuildOfPromotedURL: a bulk item fails, its URL is promoted and done, and the bulk item
// is retried. Then the counters are lost. A rebuild counts the record of the promoted item,
// although the bulk item is queued in an earlier round. The rebuild does not count a record of
// the round in which the bulk item is queued.
func TestRebuildOfPromotedURL(t *testing.T) {
	t.Parallel()
	s := openStore(t, exactConfig(servers.Redis(t, servers.RedisOptions{})))
	page := testPages("a.test", 0, 1)
	var records []Ended
	end := func(outcome frontier.Outcome) {
		t.Helper()
		for _, item := range endHost(t, s, outcome, outcome) {
			records = append(records, Ended{Item: item, Outcome: outcome, Status: 200})
		}
	}
	mustAdd(t, s, page)
	end(frontier.ServerError)
	mustAddDecided(t, s, exact.Promoted, 0, page)
	end(frontier.OK)
	if n, err := s.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
		t.Fatalf("Retry = %d, %v, want 1", n, err)
	}
	uncommitted := records[0]  // a worker wrote this record and then died
	uncommitted.Item.Round = 2 // after round 1 of the promoted item
	records = append(records, uncommitted)
	if err := s.client.Del(t.Context(), s.partition("a.test").meta).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := s.cfg
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := func(yield func(Ended, error) bool) {
		for _, end := range records {
			if !yield(end, nil) {
				return
			}
		}
	}
	if _, err := Rebuild(t.Context(), cfg, all); err != nil {
		t.Fatal(err)
	}
	stats := wantBooks(t, openStore(t, cfg))
	if stats.Done != 1 || stats.Queued != 1 || stats.Records != 2 || stats.Outcomes[frontier.OK] != 1 || stats.Outcomes[frontier.ServerError] != 1 {
		t.Errorf("after the rebuild the counters are %+v, want 1 done, 1 queued, and the records of two rounds", stats)
	}
}

func TestRebuildNothing(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	if _, err := Rebuild(t.Context(), cfg, recordsOf(nil)); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("Rebuild = %v, want %v", err, ErrNoCrawl)
	}
}

// TestMarkSeen: marked URLs are answered Seen, and do not count as added.
func TestMarkSeen(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	mustAdd(t, s, testPages("a.test", 0, 50))
	known := slices.Collect(func(yield func(SeenURL) bool) {
		for _, item := range slices.Concat(testPages("a.test", 25, 1000), testPages("b.test", 0, 1000)) {
			yield(SeenURL{Host: item.Host, URL: item.URL})
		}
	})
	for round, want := range []int{1950, 0} {
		if fresh, err := s.MarkSeen(t.Context(), known); err != nil || fresh != want {
			t.Errorf("MarkSeen, call %d: %d URLs were new (%v), want %d", round, fresh, err, want)
		}
	}
	if got := answersOf(mustAdd(t, s, testPages("b.test", 0, 1000))); got[frontier.Seen] != 1000 {
		t.Errorf("known URLs are answered %v, want 1000 seen", got)
	}
	if stats := wantBooks(t, s); stats.Added != 50 || stats.Queued != 50 {
		t.Errorf("the books are %+v, want 50 added and queued", stats.Books)
	}
	audit, err := s.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if off := audit.Added - 50; off > 5*audit.AddedErr+5 || off < -5*audit.AddedErr-5 {
		t.Errorf("the audit estimates %.0f ± %.0f added URLs, want 50", audit.Added, audit.AddedErr)
	}
}

// TestMarkSeenInterrupted: MarkSeen counts the URLs that it has marked, even if its context ends.
func TestMarkSeenInterrupted(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Capacity = 1_000_000
	s := openStore(t, cfg)
	var known []SeenURL
	for _, item := range testPages("a.test", 0, 100_000) {
		known = append(known, SeenURL{Host: item.Host, URL: item.URL})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		defer cancel()
		p := s.partition("a.test")
		for marked := 0; marked == 0 && ctx.Err() == nil; {
			marked, _ = s.client.HGet(ctx, p.meta, "keys1").Int()
		}
	})
	fresh, err := s.MarkSeen(ctx, known)
	cancel() // also if MarkSeen has failed at once
	if group.Wait(); !errors.Is(err, context.Canceled) || fresh == 0 || fresh == len(known) {
		t.Fatalf("MarkSeen marked %d of %d URLs, %v, want some of them and %v", fresh, len(known), err, context.Canceled)
	}
	if keys, counted := counter(t, s, "keys1"), counter(t, s, fieldKnown); keys != int64(fresh) || counted != keys {
		t.Errorf("MarkSeen = %d, the filter has %d new keys, and %d are counted, want the same number", fresh, keys, counted)
	}
}

// TestDeleteRemovesAllKeys: Delete removes every key of a crawl and no other,
// and fails while the crawl is in use.
func TestDeleteRemovesAllKeys(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Capacity, cfg.Partitions = 100, 2
	cfg.Policy = policy.NewLive(&policy.Policy{MaxPerHost: 1000}).Load
	s := openStore(t, cfg)
	admin := server.Client()
	others := cfg
	others.Name = "test2"
	other := openStore(t, others)
	variety(t, s)
	if layers := s.parts[0].chain().Layers() + s.parts[1].chain().Layers(); layers < 4 {
		t.Fatalf("the filters have %d layers, want at least 4", layers)
	}
	mustAdd(t, other, testPages("a.test", 0, 10))
	admin.Set(t.Context(), "test", "not ours", 0)
	admin.Set(t.Context(), "{"+s.card.ID+"}f", "not ours", 0)

	looking, err := Inspect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer looking.Close()
	pending := func(want bool) {
		t.Helper()
		if _, is, err := looking.Pending(t.Context(), "a.test", testPages("a.test", 0, 1)[0].URL); is != want || err != nil {
			t.Errorf("Pending of a page of a.test = %v, %v, want %v", is, err, want)
		}
	}
	mustAdd(t, s, testPages("a.test", 0, 10))
	pending(true)
	if _, err := Delete(t.Context(), cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("Delete beside a worker = %v, want %v", err, frontier.ErrLocked)
	}
	mustAdd(t, s, testPages("a.test", 0, 10)) // the crawl continues
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A crawl whose deletion was interrupted cannot be opened.
	admin.HSet(t.Context(), cfg.cardKey(), closedField, deleting)
	if s, err := Open(t.Context(), cfg); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("Open of a crawl that is being deleted = %v, %v, want %v", s, err, ErrNoCrawl)
	}
	if _, err := Rebuild(t.Context(), cfg, recordsOf(nil)); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("Rebuild of a crawl that is being deleted = %v, want %v", err, ErrNoCrawl)
	}
	mine := 0
	for _, prefix := range []string{"{" + s.card.ID + ":", cfg.cardKey()} {
		keys, err := allKeys(t, other, prefix)
		if err != nil {
			t.Fatal(err)
		}
		mine += len(keys)
	}
	n, err := Delete(context.WithoutCancel(t.Context()), cfg)
	if err != nil || n != mine {
		t.Errorf("Delete = %d, %v, want %d keys", n, err, mine)
	}
	pending(false)
	left := admin.Keys(t.Context(), "*").Val()
	for _, key := range left {
		if strings.HasPrefix(key, "{"+s.card.ID+":") || strings.HasPrefix(key, cfg.cardKey()) {
			t.Errorf("key %q is left after Delete", key)
		}
	}
	if admin.Exists(t.Context(), "test", "{"+s.card.ID+"}f").Val() != 2 {
		t.Error("Delete removed keys that do not belong to the crawl")
	}
	if got := answersOf(mustAdd(t, other, testPages("a.test", 0, 10))); got[frontier.Seen] != 10 {
		t.Errorf("the other crawl answers %v, want 10 seen", got)
	}
	if _, err := Delete(t.Context(), cfg); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("the second Delete = %v, want %v", err, ErrNoCrawl)
	}
	if fresh := openStore(t, cfg); fresh.card.ID == s.card.ID {
		t.Error("a new crawl has the id of the one that was deleted")
	}
}

// TestDeleteOnFullServer: a crawl can be deleted to free the memory of a full server.
func TestDeleteOnFullServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 10))
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Delete(t.Context(), cfg); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("Delete beside a worker = %v, want %v", err, frontier.ErrLocked)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := Delete(t.Context(), cfg); err != nil || n == 0 {
		t.Errorf("Delete on a full server = %d, %v, want the number of the crawl's keys", n, err)
	}
}
