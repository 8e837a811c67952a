package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// endedOf returns the records of a crawl that the function variety made. There is one record
// for each item in done, and one for each failed item. The failed item of a host is the tenth
// of the host's items in the argument all.
func endedOf(all, done []frontier.Offer) (ended []Ended) {
	for _, offer := range done {
		ended = append(ended, Ended{Item: offer.Item(bloomstore.Fingerprint{}), Outcome: frontier.OK, Status: 200})
	}
	failed := map[string]int{}
	for _, offer := range all {
		if failed[offer.Host]++; failed[offer.Host] == 10 {
			ended = append(ended, Ended{Item: offer.Item(bloomstore.Fingerprint{}), Outcome: frontier.ServerError, Status: 503})
		}
	}
	return ended
}

func each[T any](list []T) func(func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// TestRecreateLostCrawl: the server of a crawl, or one of its nodes, loses all data. The
// crawl is created again with its id, its key, its sizes and its settings, and with the
// outcomes in its records.
func TestRecreateLostCrawl(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		server := servers.Redis(t, servers.RedisOptions{})
		testRecreate(t, config(server), server.Client().FlushAll, true)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
		cfg := clusterConfig(cluster)
		node, err := cluster.PrimaryOf(t.Context(), cfg.cardKey())
		if err != nil {
			t.Fatal(err)
		}
		testRecreate(t, cfg, node.Client().FlushAll, false)
	})
}

func testRecreate(t *testing.T, cfg Config, lose func(context.Context) *redis.StatusCmd, all bool) {
	cfg.Settings = frontier.Settings{"scope": "host"}
	s := openStore(t, cfg)
	items, done := variety(t, s)
	ended := endedOf(items, done)
	kept, err := s.Card()
	if err != nil {
		t.Fatal(err)
	}
	if err := Recreate(t.Context(), cfg, kept); !errors.Is(err, ErrExists) {
		t.Errorf("Recreate of a crawl that exists = %v, want %v", err, ErrExists)
	}
	before := wantBooks(t, s)
	if err := lose(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Waiting(t.Context()); !errors.Is(err, frontier.ErrFilterLost) {
		t.Errorf("Waiting of a crawl that is lost = %v, want %v", err, frontier.ErrFilterLost)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Recreate(t.Context(), cfg, kept); err != nil {
		t.Fatal(err)
	}
	if err := Recreate(t.Context(), cfg, kept); !errors.Is(err, ErrExists) {
		t.Errorf("a second Recreate = %v, want %v", err, ErrExists)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrFilterLost) || !strings.Contains(err.Error(), "rebuild it again") {
		t.Errorf("Open before Rebuild = %v, want %v", err, frontier.ErrFilterLost)
	}
	made, err := Rebuild(t.Context(), cfg, each(ended))
	if err != nil || made.Partitions == 0 || all && made.Partitions != cfg.Partitions {
		t.Fatalf("Rebuild = %+v, %v, want every lost partition rebuilt", made, err)
	}
	again := openStore(t, cfg)
	if again.ID() != s.ID() || again.Hasher() != s.Hasher() || len(again.parts) != len(s.parts) || again.cfg.Settings["scope"] != "host" {
		t.Errorf("the crawl, now %+v, has another id, key, number of partitions or scope than before", again.cfg)
	}
	after := wantBooks(t, again)
	if after.Done != before.Done || after.Failed != before.Failed {
		t.Errorf("done, failed are %d, %d, want %d, %d", after.Done, after.Failed, before.Done, before.Failed)
	}
	if all && (after.Queued+after.Leased != 0 || after.Records != 54 || after.Pages != 54 || after.Outcomes[frontier.ServerError] != 6) {
		t.Errorf("counters made from the records alone are %+v, want nothing queued or leased, 54 records and pages, 6 server errors",
			after)
	}
	bulk := slices.DeleteFunc(done, func(offer frontier.Offer) bool { return offer.Class != frontier.Bulk })
	if got := answersOf(mustAdd(t, again, bulk)); got[frontier.Seen] != len(bulk) {
		t.Errorf("done URLs are answered %v, want all %d seen", got, len(bulk))
	}
	if !all { // the other nodes' data belongs to the crawl
		if after.Queued+after.Leased == 0 {
			t.Error("no item waits on the other nodes, want those from before")
		}
		return
	}
	if n, err := again.Retry(t.Context(), frontier.Failures{}); err != nil || n != 6 {
		t.Errorf("Retry = %d, %v, want 6", n, err)
	}
	wantBooks(t, again)
}

// TestRecreateRefusesCards: a damaged card is refused, and no error shows the key in
// it.
func TestRecreateRefusesCards(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	const secret = "0123456789abcdef0123456789abcdeX"
	for _, text := range []string{"", "{}", `{"format":1}`, `{"format":3,"id":"abcdef","partitions":4,"lease_ms":5000,"key":"` + secret + `"}`} {
		err := Recreate(t.Context(), cfg, []byte(text))
		if !errors.Is(err, frontier.ErrParamsMismatch) || strings.Contains(err.Error(), secret[:16]) {
			t.Errorf("Recreate from %q = %v, want %v and no key", text, err, frontier.ErrParamsMismatch)
		}
	}
	if _, err := Inspect(t.Context(), cfg); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("Inspect after that = %v, want %v", err, ErrNoCrawl)
	}
}

// TestWorkerOfLostCrawl: after the server has lost all data, the calls of a worker soon
// return an error that says so. The worker voids no record.
func TestWorkerOfLostCrawl(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		server := servers.Redis(t, servers.RedisOptions{})
		cfg := config(server)
		cfg.OpenOutput = countOutput
		s := openStore(t, cfg)
		mustAdd(t, s, testPages("a.test", 0, 20))
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
		if err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
		}
		if restart {
			err = errors.Join(server.Kill(), server.Restart())
		} else {
			err = server.Client().FlushAll(t.Context()).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		l := grant.Leases[0]
		done := finish(l.Items[0])
		done.Record = func(frontier.LinkCounts) error { return nil }
		done.Void = func() error { t.Error("Void was called, want the record kept"); return nil }
		lost := func(what string, call func() error) {
			eventually(t, what+" to say that the crawl is lost", func() bool {
				err := call()
				if err == nil || !errors.Is(err, frontier.ErrFilterLost) && !errors.Is(err, frontier.ErrUnavailable) {
					t.Fatalf("restart=%t: %s = %v, want %v", restart, what, err, frontier.ErrFilterLost)
				}
				return errors.Is(err, frontier.ErrFilterLost)
			})
		}
		lost("Complete", func() error {
			return s.Complete(t.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
		})
		lost("Add", func() error { _, err := s.Add(t.Context(), testPages("b.test", 0, 9)); return err })
		lost("Lease", func() error {
			grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
			if grant.Empty {
				t.Fatal("Lease says that the lost crawl is empty")
			}
			return err
		})
		p := s.partition("a.test")
		hold := &call{part: p, script: holdScript, keys: []string{p.meta}, args: []any{1000}}
		if s.runAll(t.Context(), []*call{hold}); hold.err != nil || integer(hold.reply) != 0 {
			t.Errorf("hold.lua replied %v, %v, want 0", hold.reply, hold.err)
		}
		if fields := server.Client().HGetAll(t.Context(), p.meta).Val(); fields[fieldEpoch] != "" {
			t.Errorf("the lost partition has an epoch: %v", fields)
		}
	}
}

// TestPastRounds: an item has one record for each of its rounds. The last record says how
// the item ended, unless the item is queued again.
func TestPastRounds(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	s := openStore(t, cfg)
	waits := testPages("a.test", 5, 7)
	mustAdd(t, s, waits)
	p := s.partition("a.test")
	if err := errors.Join(s.Close(), server.Client().Del(t.Context(), p.meta).Err()); err != nil {
		t.Fatal(err)
	}
	pages := testPages("a.test", 0, 5)
	end := func(n int, round uint32, outcome frontier.Outcome) Ended {
		it := pages[n].Item(bloomstore.Fingerprint{})
		it.Round = round
		return Ended{Item: it, Outcome: outcome}
	}
	records := []Ended{
		// Page 0 was fetched again after its window, which is the time for which it counted
		// as seen.
		end(0, 0, frontier.OK), end(0, 1, frontier.OK),
		end(1, 1, frontier.OK), end(1, 0, frontier.Network), // page 1 was retried
		end(2, 0, frontier.Network), end(2, 1, ""), // page 2 waits, according to the exact set
		end(3, 0, frontier.Network), end(3, 1, frontier.Throttled),
		end(4, 0, frontier.OK), end(4, 1, frontier.OK),
	}
	if _, err := Rebuild(t.Context(), cfg, each(records)); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, cfg)
	r, err := again.recount(t.Context())
	if err != nil || len(contradictions(&r)) > 0 {
		t.Fatalf("the recount finds contradictions %q, error %v", contradictions(&r), err)
	}
	got := r.Counters
	if got.Done != 5 || got.Failed != 1 || got.Queued != 2 || got.Added != 8 || got.Records != 9 || r.renewed != 1 || r.known != 0 {
		t.Errorf("counted %+v, renewed %d, known %d; want 5 done, 1 failed, 2 queued, 8 added, 9 records, 1 renewed, 0 known",
			got, r.renewed, r.known)
	}
	at, err := again.Lookup(t.Context(), "a.test", pages[3].URL)
	if err != nil || at.State != frontier.Failed || at.Outcome != frontier.Throttled || at.Round != 1 {
		t.Errorf("page 3, which failed twice: %+v, %v, want failed, throttled, round 1", at, err)
	}
	at, err = again.Lookup(t.Context(), "a.test", pages[2].URL)
	if err != nil || at.State == frontier.Failed {
		t.Errorf("page 2, which waits according to the exact set: %+v, %v, want it not failed", at, err)
	}
}
