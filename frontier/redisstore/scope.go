package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/recent"
)

var _ frontier.Scope = (*Store)(nil)

// maxScopeStep bounds the keys of one command.
const maxScopeStep = 1000

// Admit implements frontier.Scope.
func (s *Store) Admit(ctx context.Context, keys []string) error {
	life := s.scope.current()
	for some := range slices.Chunk(keys, maxScopeStep) {
		if err := s.client.SAdd(ctx, s.cfg.scopeKey(), some).Err(); err != nil {
			return s.classify(ctx, err)
		}
		s.scope.add(life, some)
	}
	return nil
}

// Admitted implements frontier.Scope.
func (s *Store) Admitted(ctx context.Context, keys []string) ([]bool, error) {
	life := s.scope.current()
	open := make([]bool, len(keys))
	var ask []string
	var indices []int // of ask in keys
	for i, key := range keys {
		if open[i] = s.scope.Has(key); !open[i] {
			ask, indices = append(ask, key), append(indices, i)
		}
	}
	for len(ask) > 0 {
		some := ask[:min(len(ask), maxScopeStep)]
		answers, err := s.client.SMIsMember(ctx, s.cfg.scopeKey(), some).Result()
		if err != nil {
			return nil, s.classify(ctx, err)
		}
		for i, answer := range answers {
			if open[indices[i]] = answer; answer {
				s.scope.add(life, some[i:i+1])
			}
		}
		ask, indices = ask[len(some):], indices[len(some):]
	}
	return open, nil
}

// rememberedKeys is the minimum number of keys that each cache of scope keys or quota keys
// remembers. They take some megabytes.
const rememberedKeys = 1 << 18

// scopeCache remembers keys that are in the set of scope keys, or in their quota groups. The keys
// stay in these sets, unless a server loses its last writes. A scopeCache is safe for concurrent
// use.
type scopeCache struct {
	*recent.Keys

	mu    sync.RWMutex
	lives uint64 // number of times that it was cleared
}

func newScopeCache() *scopeCache { return &scopeCache{Keys: recent.New(rememberedKeys)} }

// current returns the number to pass to add. The caller must call current before it asks a server.
func (c *scopeCache) current() (life uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lives
}

func (c *scopeCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Clear()
	c.lives++
}

// add remembers keys, unless the cache was cleared after the call of current that returned life.
func (c *scopeCache) add(life uint64, keys []string) {
	c.mu.RLock() // the cache must not be cleared meanwhile
	defer c.mu.RUnlock()
	if life != c.lives {
		return
	}
	for _, key := range keys {
		c.Add(key)
	}
}
