package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// config returns the config of a small crawl on a server that only the test uses.
func config(server *servers.RedisServer) Config {
	return Config{
		Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}},
		Name:  "test", SeenCache: DefaultSeenCache, Partitions: 4, Capacity: 10_000,
	}
}

func openStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testPages(host string, from, to int) (items []frontier.Offer) {
	for n := from; n < to; n++ {
		items = append(items, frontier.Offer{
			URL: fmt.Sprintf("https://%s/path/of/page/%d?query=%d", host, n, n), Host: host,
			Depth: 1, Priority: frontier.PriorityPage, Referrer: frontier.Referrer{1, 2, 3},
		})
	}
	return items
}

// answersOf counts verdicts by their answer.
func answersOf(verdicts []frontier.Verdict) map[frontier.Answer]int {
	counts := make(map[frontier.Answer]int)
	for _, v := range verdicts {
		counts[v.Answer]++
	}
	return counts
}

func mustAdd(t testing.TB, s *Store, items []frontier.Offer) []frontier.Verdict {
	t.Helper()
	verdicts, err := s.Add(context.WithoutCancel(t.Context()), items)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func TestAddCounts(t *testing.T) {
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	var items []frontier.Offer
	for h := range 20 {
		items = append(items, testPages(fmt.Sprintf("h%d.test", h), 0, 300)...)
	}
	if got := answersOf(mustAdd(t, s, items)); got[frontier.Added] != len(items) {
		t.Fatalf("%d of %d new items were answered added", got[frontier.Added], len(items))
	}
	if got := answersOf(mustAdd(t, s, items)); got[frontier.Seen] != len(items) {
		t.Fatalf("%d of %d known items were answered seen", got[frontier.Seen], len(items))
	}
}

// dumpQueue returns the queued items of all partitions, ready and delayed, by URL.
func dumpQueue(t testing.TB, s *Store) map[string]frontier.Item {
	t.Helper()
	queued := make(map[string]frontier.Item)
	put := func(host, entry string) {
		item, err := decodeEntry(entry, host, s.hasher)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := queued[item.URL]; twice {
			t.Errorf("%q is queued twice", item.URL)
		}
		queued[item.URL] = item
	}
	for _, p := range s.parts {
		for _, prefix := range []string{"0", "1", "2"} {
			keys, err := allKeys(t, s, p.tag+prefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				for _, entry := range s.client.LRange(t.Context(), key, 0, -1).Val() {
					put(key[len(p.tag)+1:], entry)
				}
			}
		}
		for _, member := range s.client.ZRange(t.Context(), p.delayed, 0, -1).Val() {
			host, entry, _ := strings.Cut(member[delayedSeqBytes:], "\x00")
			put(host, entry)
		}
	}
	return queued
}

// allKeys returns the keys that begin with a prefix.
func allKeys(t testing.TB, s *Store, prefix string) ([]string, error) {
	return s.client.Keys(t.Context(), strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(prefix)+"*").Result()
}

// counter returns the sum of a field over all partitions. For "a" it is the sum
// of all fields that are "a" followed by a number.
func counter(t testing.TB, s *Store, field string) (sum int64) {
	t.Helper()
	for _, p := range s.parts {
		for name, value := range s.client.HGetAll(t.Context(), p.meta).Val() {
			number, isAdded := strings.CutPrefix(name, fieldAdded)
			_, err := strconv.Atoi(number)
			if name != field && !(field == fieldAdded && isAdded && err == nil) {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestAddersRace has several workers offer the same pages at the same time. A call can contain
// a URL several times. Each URL must be queued and counted once.
func TestAddersRace(t *testing.T) {
	const stores, callers, urls = 3, 4, 600
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Capacity = 100 // the filter grows while they race
	var pages []frontier.Offer
	for n := range urls {
		pages = append(pages, testPages(fmt.Sprintf("h%d.test", n%60), n, n+1)...)
	}
	var added [urls]atomic.Int32
	var group sync.WaitGroup
	seed := newRand(t).Uint64()
	for store := range stores {
		s := openStore(t, cfg)
		for caller := range callers {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(store*callers+caller)))
				for range 60 {
					var batch []frontier.Offer
					var which []int
					for range 1 + rng.IntN(40) {
						n := rng.IntN(urls)
						batch, which = append(batch, pages[n]), append(which, n)
					}
					verdicts, err := s.Add(t.Context(), batch)
					if err != nil {
						t.Error(err)
						return
					}
					for i, v := range verdicts {
						if v.Answer == frontier.Added {
							added[which[i]].Add(1)
						}
					}
				}
			})
		}
	}
	group.Wait()
	s := openStore(t, cfg)
	mustAdd(t, s, pages)
	queue := dumpQueue(t, s)
	if len(queue) != urls {
		t.Errorf("%d URLs are queued, want %d", len(queue), urls)
	}
	for n := range added {
		if got := added[n].Load(); got > 1 {
			t.Errorf("%q was answered added %d times, want at most once", pages[n].URL, got)
		}
	}
	for field, want := range map[string]int64{fieldAdded: urls, fieldQueued: urls} {
		if got := counter(t, s, field); got != want {
			t.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
	if other, seen := counter(t, s, fieldOther), counter(t, s, fieldSeen); other != seen || other == 0 {
		t.Errorf("%d offers are counted as not added, %d as seen; want the same number, not 0", other, seen)
	}
	for _, p := range s.parts {
		if layers := p.chain().Layers(); layers < 2 {
			t.Errorf("partition %d has %d layers, want at least 2: the filter was made for 100 keys", p.number, layers)
		}
	}
}

// TestAddOrder: the items of a host are queued in the order of their offers,
// even if their bits are in one block.
func TestAddOrder(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Capacity, cfg.Growth, cfg.FPR, cfg.Partitions = 300, bloomstore.GrowthOff, 1e-9, 1
	s := openStore(t, cfg)
	pages := testPages("a.test", 0, 300)
	mustAdd(t, s, pages)
	for i, entry := range s.client.LRange(t.Context(), s.parts[0].queue(1, "a.test"), 0, -1).Val() {
		item, err := decodeEntry(entry, "a.test", s.hasher)
		if err != nil || item.URL != pages[i].URL {
			t.Fatalf("place %d of the queue has %q (%v), want %q", i, item.URL, err, pages[i].URL)
		}
	}
}

// TestAddMany offers more than maxGroupAsks items in one call.
func TestAddMany(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Capacity = 100_000
	s := openStore(t, cfg)
	pages := testPages("a.test", 0, 2*maxGroupAsks+100)
	if got := answersOf(mustAdd(t, s, append(pages, pages...))); got[frontier.Added] != len(pages) || got[frontier.Seen] != len(pages) {
		t.Errorf("%d pages offered twice: answers %v, want each added once and seen once", len(pages), got)
	}
	last := s.client.LIndex(t.Context(), s.partition("a.test").queue(1, "a.test"), -1).Val()
	if item, err := decodeEntry(last, "a.test", s.hasher); err != nil || item.URL != pages[len(pages)-1].URL {
		t.Errorf("the last queued item is %q (%v), want %q", item.URL, err, pages[len(pages)-1].URL)
	}
}

func TestPromotionOfBulkKeys(t *testing.T) {
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	page := testPages("a.test", 0, 1)
	mustAdd(t, s, page)
	page[0].Class = frontier.Exact
	for i, want := range []frontier.Answer{frontier.Added, frontier.Seen, frontier.Seen} {
		if got := mustAdd(t, s, page)[0].Answer; got != want {
			t.Errorf("exact offer number %d is answered %v, want %v", i+1, got, want)
		}
	}
	entries := s.client.LRange(t.Context(), s.partition("a.test").queue(1, "a.test"), 0, -1).Val()
	if len(entries) != 2 {
		t.Fatalf("%d entries are queued, want 2", len(entries))
	}
	for i, round := range []uint32{0, 1} {
		if it, err := decodeEntry(entries[i], "a.test", s.hasher); err != nil || it.URL != page[0].URL || it.Round != round {
			t.Errorf("entry %d is %+v, %v, want %q in round %d", i, it, err, page[0].URL, round)
		}
	}
	if got := counter(t, s, fieldPromoted); got != 1 {
		t.Errorf("promoted is %d, want 1", got)
	}
}

// TestPendingOfPromotedURL: a bulk item waits, and its URL is promoted with a better priority. So
// the promoted item is the first in the queue. Pending returns the round of the bulk item.
func TestPendingOfPromotedURL(t *testing.T) {
	t.Parallel()
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	page := testPages("a.test", 0, 1)
	page[0].Priority = frontier.PriorityPage
	mustAdd(t, s, page)
	page[0].Class, page[0].Priority = frontier.Exact, frontier.PrioritySeed
	mustAdd(t, s, page)
	if round, pending, err := s.Pending(t.Context(), "a.test", page[0].URL); round != 0 || !pending || err != nil {
		t.Errorf("Pending = %d, %t, %v, want round 0", round, pending, err)
	}
}

// TestShadowSample offers sampled URLs, then clears their bits. The sample
// shows that the filter has forgotten them.
func TestShadowSample(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Partitions = 1
	s := openStore(t, cfg)
	var sampled []frontier.Offer
	for n := 0; len(sampled) < 5; n++ {
		if page := testPages("a.test", n, n+1); s.hasher.Fingerprint(page[0].URL).Sampled() {
			sampled = append(sampled, page...)
		}
	}
	want := func(fresh, lost, forgotten int64) {
		t.Helper()
		got := [3]int64{counter(t, s, fieldShadowNew), counter(t, s, fieldShadowLost), counter(t, s, fieldShadowForgotten)}
		if got != [3]int64{fresh, lost, forgotten} {
			t.Errorf("new, lost and forgotten are %v, want %d, %d, %d", got, fresh, lost, forgotten)
		}
	}
	for range 2 {
		mustAdd(t, s, sampled)
		want(5, 0, 0)
	}
	s.client.Del(t.Context(), s.parts[0].shadow)
	mustAdd(t, s, sampled[:2])
	want(5, 2, 0)
	chain := s.parts[0].chain()
	for segment := range s.layout.Layer(0).Segments {
		key := chain.SegmentKey(0, segment)
		size := s.client.StrLen(t.Context(), key).Val()
		s.client.SetRange(t.Context(), key, redisbits.HeaderBytes, strings.Repeat("\x00", int(size)-redisbits.HeaderBytes))
	}
	mustAdd(t, s, sampled)
	want(8, 2, 2)
}

func TestMaxQueued(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy = policy.NewLive(&policy.Policy{MaxQueued: 10}).Load
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 20)) // a full queue still accepts items that are not links
	got, err := s.offer(t.Context(), testPages("a.test", 15, 25), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.verdicts {
		want := frontier.Verdict{Answer: frontier.Seen}
		if i >= 5 {
			want = frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonQueueFull}
		}
		if v != want {
			t.Errorf("link %d: answer %v, reason %q, want %v, %q", i, v.Answer, v.Reason, want.Answer, want.Reason)
		}
	}
	other := openStore(t, cfg) // this worker counts the queue before Open returns
	if got, err := other.offer(t.Context(), testPages("b.test", 0, 1), nil, true); err != nil || got.verdicts[0].Reason != frontier.ReasonQueueFull {
		t.Errorf("another worker's link: %v, %v, want it refused", got.verdicts, err)
	}
}

// TestAddAfterLostReply: if the answer of Add was lost and the call is repeated, each item is
// queued once and counted as added once.
func TestAddAfterLostReply(t *testing.T) {
	c := newLostReply(t)
	pages := testPages("a.test", 0, 10)
	mustAdd(t, c.Store, testPages("a.test", 10, 11))
	c.lose(addScript, func(ctx context.Context) error {
		_, err := c.Add(ctx, pages)
		return err
	})
	if got := counter(t, c.Store, fieldAdded); got != 11 {
		t.Errorf("%d items were added, want 11: the clients send nothing twice", got)
	}
	if got := answersOf(mustAdd(t, c.Store, pages)); got[frontier.Seen] != len(pages) {
		t.Errorf("offered again: %v, want all seen", got)
	}
	if queue := dumpQueue(t, c.Store); len(queue) != 11 {
		t.Errorf("%d items are queued, want 11", len(queue))
	}
	if other := counter(t, c.Store, fieldOther); other != int64(len(pages)) {
		t.Errorf("%d items were offered and not added, want %d", other, len(pages))
	}
}

// TestFilterWentBack makes a server lose the last layers of a filter, together with the
// entries of their keys. This loss is not an error: the lost URLs are added again.
func TestFilterWentBack(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	cfg := config(server)
	cfg.Capacity, cfg.Partitions = 50, 1
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 100))
	if layers := s.parts[0].chain().Layers(); layers != 2 {
		t.Fatalf("the filter has %d layers, want 2", layers)
	}
	size, err := server.AOFSize()
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, testPages("a.test", 100, 1000))
	layers := s.parts[0].chain().Layers()
	if layers < 4 {
		t.Fatalf("the filter has %d layers, want 4 or more", layers)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	grown, err := server.AOFSize()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CutAOF(func(n int64) int64 { return n - (grown - size) + 100 }); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	verdicts, err := s.Add(t.Context(), testPages("a.test", 0, 1000))
	for errors.Is(err, frontier.ErrUnavailable) { // the store's connections are to the old server
		verdicts, err = s.Add(t.Context(), testPages("a.test", 0, 1000))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := answersOf(verdicts); got[frontier.Added] == 0 || got[frontier.Seen] < 100 {
		t.Errorf("after the server lost its last writes: answers %v, want some added and 100 or more seen", got)
	}
	if queue := dumpQueue(t, s); len(queue) != 1000 {
		t.Errorf("%d URLs are queued, want 1000", len(queue))
	}
}

// TestAddWaits asks for a replica that does not exist. Add returns an error, but the items are
// queued.
func TestAddWaits(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Wait = 1
	s := openStore(t, cfg)
	if _, err := s.Add(t.Context(), testPages("a.test", 0, 3)); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add without a replica = %v, want %v", err, frontier.ErrUnavailable)
	}
	if queue := dumpQueue(t, s); len(queue) != 3 {
		t.Errorf("%d items are queued, want 3", len(queue))
	}
}

func TestAddOutOfMemory(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	mustAdd(t, s, testPages("a.test", 0, 10))
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), testPages("a.test", 10, 20)); !errors.Is(err, frontier.ErrFull) || !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add without memory = %v, want %v and %v", err, frontier.ErrFull, frontier.ErrUnavailable)
	}
	// Known URLs are not stored again, but Add counts them, so it needs memory too.
	if _, err := s.Add(t.Context(), testPages("a.test", 0, 10)); !errors.Is(err, frontier.ErrFull) || !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Add of known URLs without memory = %v, want %v and %v", err, frontier.ErrFull, frontier.ErrUnavailable)
	}
	if queue := dumpQueue(t, s); len(queue) != 10 {
		t.Errorf("%d items are queued, want 10", len(queue))
	}
}

func TestClosedStoreAdds(t *testing.T) {
	s, err := Open(t.Context(), config(servers.Redis(t, servers.RedisOptions{})))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), testPages("a.test", 0, 1)); !errors.Is(err, frontier.ErrClosed) {
		t.Errorf("Add after Close: %v, want %v", err, frontier.ErrClosed)
	}
}
