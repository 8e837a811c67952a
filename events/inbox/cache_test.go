package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/rediscache"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// cacheOf returns a cache in a server. After an error it pauses for only 1 ns.
func cacheOf(t testing.TB, server *servers.RedisServer) *rediscache.Cache {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	must(t, err)
	cache, err := rediscache.New(rediscache.Config{
		Redis:   &redis.UniversalOptions{Addrs: []string{options.Addr}},
		Timeout: 10 * time.Second, Pause: time.Nanosecond,
	})
	must(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// steps calls a hook before each transaction, and before and after each command of the
// cache. A test uses the hook to break the cache at each step of a delivery.
type steps struct {
	*pgxpool.Pool
	inbox.Cache
	hook func()
}

func (s steps) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	s.hook()
	return s.Pool.BeginTx(ctx, options)
}

func (s steps) Contains(ctx context.Context, key string) (bool, error) {
	s.hook()
	defer s.hook()
	return s.Cache.Contains(ctx, key)
}

func (s steps) Add(ctx context.Context, key string, ttl time.Duration) error {
	s.hook()
	defer s.hook()
	return s.Cache.Add(ctx, key, ttl)
}

// TestCacheLost: an event is delivered four times, and the first delivery fails. The cache is
// flushed, or its server is killed, at each step of these deliveries. The event has one
// effect.
func TestCacheLost(t *testing.T) {
	t.Parallel()
	pool := database(t)
	server := servers.Redis(t, servers.RedisOptions{})
	cache := cacheOf(t, server)
	for name, lose := range map[string]func(){
		"flush": func() { must(t, server.Client().FlushAll(t.Context()).Err()) },
		"kill":  func() { must(t, server.Kill()) },
	} {
		for step, last := 0, false; !last; step++ {
			id := fmt.Sprint(name, step)
			n := 0
			last = true // the function below sets it to false if a delivery reaches the step
			s := steps{Pool: pool, Cache: cache, hook: func() {
				if n++; n == step+1 {
					lose()
					last = false
				}
			}}
			i := open(t, pool, func(c *inbox.Config) { c.DB, c.Cache = s, s })
			for _, failure := range []error{errHandler, nil, nil, nil} {
				_, err := i.Once(t.Context(), id, func(ctx context.Context, tx pgx.Tx) error {
					s.hook()
					return errors.Join(effect(ctx, tx, id), failure)
				})
				if failure == nil && err != nil {
					t.Errorf("with %s at step %d: Once returned %v, want no error", name, step, err)
				}
			}
			wantEffects(t, pool, id, 1)
			if server.Pid() == 0 {
				must(t, server.Restart())
			}
		}
	}
}

// TestCache: an event is added to the cache only after its commit. From then on, repeats in
// the same group are answered without Postgres.
func TestCache(t *testing.T) {
	t.Parallel()
	pool := database(t)
	server := servers.Redis(t, servers.RedisOptions{})
	cache := cacheOf(t, server)
	metrics := new(counter)
	i := open(t, pool, func(c *inbox.Config) { c.Cache, c.Metrics = cache, metrics })
	empty := func() {
		t.Helper()
		if n, err := server.Client().DBSize(t.Context()).Result(); err != nil || n != 0 {
			t.Errorf("the cache has %d keys (%v) before the commit, want none", n, err)
		}
	}
	fail(t, i, t.Context(), func(error) error { empty(); return errHandler }, errHandler)
	empty()
	deliver(t, i, inbox.Done)
	without := open(t, pool, func(c *inbox.Config) { c.Cache = cache })
	pool.Close() // Postgres does not answer from here on
	deliver(t, without, inbox.Duplicate)
	deliver(t, i, inbox.Duplicate)
	store(t, i, inbox.Duplicate)
	metrics.want(t, inbox.OutcomeCached, 2)
	metrics.want(t, inbox.OutcomeDone, 1)
	metrics.want(t, inbox.OutcomeFailed, 1)

	// The same id in other tables is another event. So is the same id in another group.
	other := database(t)
	deliver(t, open(t, other, func(c *inbox.Config) { c.Cache = cache }), inbox.Done)
	deliver(t, open(t, other, func(c *inbox.Config) { c.Cache, c.Group = cache, "statistics" }), inbox.Done)
}

// A memory is a cache that keeps the time to live of each key.
type memory struct {
	mu   sync.Mutex
	keys map[string]time.Duration
}

func (m *memory) Contains(context.Context, string) (bool, error) { return false, nil }

func (m *memory) Add(_ context.Context, key string, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key] = ttl
	return nil
}

// TestCacheTTL: a key in the cache never outlives the mark in Postgres.
func TestCacheTTL(t *testing.T) {
	t.Parallel()
	pool := database(t)
	m := &memory{keys: map[string]time.Duration{}}
	ttl := func() time.Duration {
		t.Helper()
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.keys) != 1 {
			t.Fatalf("the cache has %d keys, want 1", len(m.keys))
		}
		for key, ttl := range m.keys {
			delete(m.keys, key)
			return ttl
		}
		return 0
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	i := open(t, pool, func(c *inbox.Config) { c.Cache, c.Window, c.CacheTTL = m, time.Hour, 50*time.Minute })
	i.SetClock(func() time.Time { return now })
	deliver(t, i, inbox.Done)
	if got := ttl(); got != 50*time.Minute {
		t.Errorf("after Done the key in the cache has a TTL of %v, want 50m", got)
	}
	now = now.Add(40 * time.Minute)
	deliver(t, i, inbox.Duplicate)
	if got := ttl(); got >= 20*time.Minute || got < 15*time.Minute {
		t.Errorf("40m later the key in the cache has a TTL of %v, want just less than 20m", got)
	}

	short := open(t, pool, func(c *inbox.Config) { c.Group, c.Cache, c.Window = "statistics", m, time.Minute })
	deliver(t, short, inbox.Done)
	if got := ttl(); got >= time.Minute || got < 30*time.Second {
		t.Errorf("with a window of 1m the key in the cache has a TTL of %v, want just less than 1m", got)
	}
	forever := open(t, pool, func(c *inbox.Config) { c.Group, c.Cache, c.Window = "archive", m, inbox.Forever })
	for _, want := range []inbox.Result{inbox.Done, inbox.Duplicate} {
		deliver(t, forever, want)
		if got := ttl(); got != time.Hour {
			t.Errorf("with marks that never expire the key in the cache has a TTL of %v, want 1h", got)
		}
	}
}

// TestCacheStalled: if Redis does not answer, only the first delivery waits for it. Until
// the pause is over, no other delivery asks Redis.
func TestCacheStalled(t *testing.T) {
	t.Parallel()
	pool := database(t)
	server := servers.Redis(t, servers.RedisOptions{})
	options, err := redis.ParseURL(server.URL())
	must(t, err)
	cache, err := rediscache.New(rediscache.Config{
		Redis: &redis.UniversalOptions{Addrs: []string{options.Addr}}, Pause: time.Hour,
	})
	must(t, err)
	defer cache.Close()
	metrics := new(counter)
	i := open(t, pool, func(c *inbox.Config) { c.Cache, c.Metrics = cache, metrics })
	must(t, server.Pause())
	deliver(t, i, inbox.Done)
	deliver(t, i, inbox.Duplicate)
	must(t, server.Resume())
	deliver(t, i, inbox.Duplicate)
	wantEffects(t, pool, "k", 1)
	if metrics.failures != 1 {
		t.Errorf("the cache failed %d times, want once: during the pause Redis is not asked", metrics.failures)
	}
}
