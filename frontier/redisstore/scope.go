package redisstore

import (
	"context"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/recent"
)

var _ frontier.Scope = (*Store)(nil)

// maxScopeStep bounds the keys of one command.
const maxScopeStep = 1000

// Admit implements frontier.Scope.
func (s *Store) Admit(ctx context.Context, keys []string) error {
	cache := s.scope.Load()
	for some := range slices.Chunk(keys, maxScopeStep) {
		if err := s.client.SAdd(ctx, s.cfg.scopeKey(), some).Err(); err != nil {
			return s.classify(ctx, err)
		}
		for _, key := range some {
			cache.Add(key)
		}
	}
	return nil
}

// Admitted implements frontier.Scope.
func (s *Store) Admitted(ctx context.Context, keys []string) ([]bool, error) {
	cache, admitted := s.scope.Load(), make([]bool, len(keys))
	var open []int // indices of the keys that cache does not have
	for i, key := range keys {
		if admitted[i] = cache.Has(key); !admitted[i] {
			open = append(open, i)
		}
	}
	for some := range slices.Chunk(open, maxScopeStep) {
		ask := make([]any, len(some))
		for j, i := range some {
			ask[j] = keys[i]
		}
		answers, err := s.client.SMIsMember(ctx, s.cfg.scopeKey(), ask...).Result()
		if err != nil {
			return nil, s.classify(ctx, err)
		}
		for j, i := range some {
			if admitted[i] = answers[j]; admitted[i] {
				cache.Add(keys[i])
			}
		}
	}
	return admitted, nil
}

// rememberedKeys is the minimum number of keys that Store.scope and Store.members each remember.
// They take some megabytes.
const rememberedKeys = 1 << 18

// forgetKeys empties the caches of scope keys and quota keys. A call reads the pointer to a cache
// before it asks a server. If the caches are emptied meanwhile, the call adds its keys to the old
// cache, which no later call reads.
func (s *Store) forgetKeys() {
	s.scope.Store(recent.New(rememberedKeys))
	s.members.Store(recent.New(rememberedKeys))
}
