package redisstore

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestConfigNamesAllFaults(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Name: "a b", FPR: 1, Partitions: -1, LeaseTTL: 1, Wait: -1, SeenCache: -2,
	})
	for _, field := range []string{"Redis", "Name", "FPR", "Partitions", "LeaseTTL", "Wait", "SeenCache"} {
		if err == nil || !strings.Contains(err.Error(), "redisstore: "+field+" is ") {
			t.Errorf("Open = %v, which names no fault of %s", err, field)
		}
	}
	for _, name := range []string{"", "a/b", "a{b}", strings.Repeat("x", 65)} {
		if _, err := Open(t.Context(), Config{Redis: new(redis.UniversalOptions), Name: name}); err == nil {
			t.Errorf("Open accepts the name %q", name)
		}
	}
}

// TestCreatorsRace has several workers create one crawl.
func TestCreatorsRace(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Settings = frontier.Settings{"scope": "host"}
	stores, errs := make([]*Store, 6), make([]error, 6)
	var group sync.WaitGroup
	for i := range stores {
		group.Go(func() { stores[i], errs[i] = Open(t.Context(), cfg) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	numbers := make(map[int]bool)
	for _, s := range stores {
		if s.ID() != stores[0].ID() || s.Hasher() != stores[0].Hasher() {
			t.Errorf("two workers of one crawl have the ids %q and %q, or different hashers", s.ID(), stores[0].ID())
		}
		numbers[s.number] = true
	}
	if len(numbers) != len(stores) || numbers[0] {
		t.Errorf("%d workers have the numbers %v, want a different one for each, none of them 0", len(stores), numbers)
	}
	if got := mustAdd(t, stores[0], testPages("a.test", 0, 1))[0].Answer; got != frontier.Added {
		t.Errorf("a new page is answered %v, want added", got)
	}
	if got := mustAdd(t, stores[5], testPages("a.test", 0, 1))[0].Answer; got != frontier.Seen {
		t.Errorf("the same page by another worker: %v, want seen", got)
	}
}

// TestInterruptedCreation removes a part of a crawl. If the crawl's creation was not
// finished, the next worker finishes it. A finished crawl is never created again.
func TestInterruptedCreation(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	s := openStore(t, cfg)
	segment := s.parts[2].chain().SegmentKey(0, 0)
	s.client.Del(t.Context(), segment)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrFilterLost) {
		t.Errorf("Open without a segment: %v, want %v", err, frontier.ErrFilterLost)
	}
	s.client.Del(t.Context(), s.parts[2].meta)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrFilterLost) {
		t.Errorf("Open without a filter: %v, want %v", err, frontier.ErrFilterLost)
	}
	s.client.HDel(t.Context(), cfg.cardKey(), readyField)
	again := openStore(t, cfg)
	if again.ID() != s.ID() {
		t.Errorf("the id of the crawl is now %q, want %q", again.ID(), s.ID())
	}
	mustAdd(t, again, testPages("a.test", 0, 10))
}

func TestJoinCompares(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Settings = frontier.Settings{"scope": "host", "user-agent": "a"}
	s := openStore(t, cfg)
	for name, change := range map[string]func(*Config){
		"scope":       func(c *Config) { c.Settings = frontier.Settings{"scope": "any", "user-agent": "a"} },
		"user-agent":  func(c *Config) { c.Settings = frontier.Settings{"scope": "host"} },
		"Keys:10000":  func(c *Config) { c.Capacity++ },
		"FPR:1e-06":   func(c *Config) { c.FPR = 1e-3 },
		"Growth":      func(c *Config) { c.Growth = bloomstore.GrowthOff },
		"4 partition": func(c *Config) { c.Partitions = 8 },
	} {
		other := cfg
		change(&other)
		_, err := Open(t.Context(), other)
		if !errors.Is(err, frontier.ErrParamsMismatch) || !strings.Contains(err.Error(), name) {
			t.Errorf("Open with another %s = %v, want %v that shows it", name, err, frontier.ErrParamsMismatch)
		}
	}
	cfg.Capacity, cfg.FPR, cfg.Partitions = 0, 0, 0 // zero values are not compared
	if joined := openStore(t, cfg); joined.cfg.Capacity != 10_000 || len(joined.parts) != 4 {
		t.Errorf("joined a crawl for %d keys in %d partitions, want 10000 and 4", joined.cfg.Capacity, len(joined.parts))
	}
	bare := Config{Redis: cfg.Redis, Name: cfg.Name}
	looking, err := Inspect(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	if looking.number != 0 || looking.ID() != s.ID() || looking.cfg.Settings["scope"] != "host" {
		t.Errorf("Inspect: crawl %q, worker number %d, settings %v, want crawl %q, number 0, scope host",
			looking.ID(), looking.number, looking.cfg.Settings, s.ID())
	}
	if err := looking.Close(); err != nil {
		t.Error(err)
	}
	settings, _, err := Stored(t.Context(), bare)
	if err != nil || settings["user-agent"] != "a" {
		t.Errorf("StoredSettings = %v, %v, want user-agent a", settings, err)
	}
}

func TestNoCrawl(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	if _, err := Inspect(t.Context(), cfg); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("Inspect = %v, want %v", err, ErrNoCrawl)
	}
	if _, _, err := Stored(t.Context(), cfg); !errors.Is(err, ErrNoCrawl) {
		t.Errorf("StoredSettings = %v, want %v", err, ErrNoCrawl)
	}
}

func TestForeignCards(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	s := openStore(t, cfg)
	for _, text := range []string{"", "{}", `{"format":1,"id":"abcdef","partitions":4}`, `{"format":3,"id":"abcdef","partitions":0}`, `{"format":3,"key":"00"}`} {
		s.client.HSet(t.Context(), cfg.cardKey(), cardField, text)
		if _, err := Open(t.Context(), cfg); !errors.Is(err, frontier.ErrParamsMismatch) {
			t.Errorf("Open with the card %q: %v, want %v", text, err, frontier.ErrParamsMismatch)
		}
	}
	s.client.Del(t.Context(), cfg.cardKey())
	s.client.Set(t.Context(), cfg.cardKey(), "foreign", 0)
	if _, err := Open(t.Context(), cfg); err == nil {
		t.Error("Open accepts a key that is no card")
	}
}

// TestScopeAndQuotaAreShared: workers share scope keys and quota groups. A repeated call, which
// the cache of a process can answer, has the same result.
func TestScopeAndQuotaAreShared(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	a, b := openStore(t, cfg), openStore(t, cfg)
	var keys []string
	for n := range 2500 { // too many for one command
		keys = append(keys, "h"+strings.Repeat("x", n%7)+string(rune('a'+n%26))+testPages("", n, n+1)[0].URL)
	}
	if open, err := b.Admitted(t.Context(), keys); err != nil || open[0] {
		t.Fatalf("Admitted before Admit = %v, %v, want false", open[0], err)
	}
	if err := a.Admit(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		open, err := b.Admitted(t.Context(), append(keys, "closed"))
		if err != nil {
			t.Fatal(err)
		}
		for i, isOpen := range open {
			if isOpen != (i < len(keys)) {
				t.Fatalf("key %d is open: %t, want %t", i, isOpen, i < len(keys))
			}
		}
	}
	for i, s := range []*Store{a, b, a} {
		if has, err := s.Reserve(t.Context(), []frontier.QuotaKey{{Group: "g", Key: "one"}}, 1); err != nil || !has[0] {
			t.Errorf("Reserve of one, call %d = %t, %v, want true", i, has, err)
		}
		if has, err := s.Reserve(t.Context(), []frontier.QuotaKey{{Group: "g", Key: "two"}}, 1); err != nil || has[0] {
			t.Errorf("Reserve of two, call %d = %t, %v, want false", i, has, err)
		}
	}
}

// TestLeaseTTLIsTheCreators: a worker that joins a crawl uses the LeaseTTL of the process that
// created the crawl.
func TestLeaseTTLIsTheCreators(t *testing.T) {
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.LeaseTTL = 20 * time.Second
	openStore(t, cfg)
	cfg.LeaseTTL = 5 * time.Second
	if s := openStore(t, cfg); s.cfg.LeaseTTL != 20*time.Second {
		t.Errorf("leases last %v, want the creator's 20s", s.cfg.LeaseTTL)
	}
}
