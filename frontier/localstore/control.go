package localstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
)

// Pause implements frontier.Control.
func (s *Store) Pause(ctx context.Context, paused bool) error {
	return s.do(ctx, &op{change: func(g *group) error {
		g.meta.Stats.Paused = paused
		g.changed = true
		return nil
	}})
}

// maxRetry bounds the failed items that one group offers again.
const maxRetry = 1000

// Retry implements frontier.Control.
func (s *Store) Retry(ctx context.Context, host string) (int, error) {
	total := 0
	lower, upper := table(tableFailed)
	if host != "" {
		lower = failedPrefix(host)
		upper = after(lower)
	}
	last := uint64(0) // what fails from now on is not offered again
	for {
		n := 0
		err := s.do(ctx, &op{change: func(g *group) (err error) {
			if last == 0 {
				last = g.meta.Seq
			}
			n, lower, err = g.retry(lower, upper, last)
			return err
		}})
		if err != nil {
			return total, err
		}
		if total += n; lower == nil {
			return total, nil
		}
	}
}

// retry queues the failed items between two keys again, up to maxRetry, and
// returns where to go on; nil: all done.
func (g *group) retry(lower, upper []byte, last uint64) (n int, next []byte, err error) {
	seen := 0
	err = g.scanRange(g.db, lower, upper, func(key, value []byte) (bool, error) {
		if seen++; seen > maxRetry {
			next = bytes.Clone(key)
			return false, nil
		}
		seq := binary.BigEndian.Uint64(key[len(key)-8:])
		if seq > last || g.retried[seq] {
			return true, nil
		}
		if g.retried == nil {
			g.retried = make(map[uint64]bool)
		}
		g.retried[seq] = true
		h, err := g.hostOf(string(hostOfFailed(key)))
		if err != nil {
			return false, err
		}
		item, err := decodeEntry(value, h.key, g.hasher)
		if err != nil {
			return false, fatal("read a failed item", err)
		}
		g.remove(key)
		g.remove(outcomeKey(item.Fingerprint))
		g.remove(blobKey(h.key))
		item.Round, item.Attempts, item.Deliveries = item.Round+1, 0, 0
		g.enqueue(h, &item)
		g.meta.Stats.Failed--
		g.meta.Stats.Queued++
		n++
		return true, nil
	})
	return n, next, err
}

// scopeCache remembers keys that are open: they stay so.
type scopeCache struct {
	mu   sync.RWMutex
	open map[string]struct{}
}

const maxScopeCache = 1 << 16

func (c *scopeCache) has(key string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.open[key]
	return ok
}

func (c *scopeCache) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil || len(c.open) >= maxScopeCache {
		c.open = make(map[string]struct{})
	}
	c.open[key] = struct{}{}
}

// Admit implements frontier.Scope.
func (s *Store) Admit(ctx context.Context, keys []string) error {
	fresh := keys[:0:0]
	for _, key := range keys {
		if !s.scope.has(key) {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := s.do(ctx, &op{change: func(g *group) error {
		for _, key := range fresh {
			g.set(scopeKey(key), nil)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	for _, key := range fresh {
		s.scope.add(key)
	}
	return nil
}

// Admitted implements frontier.Scope.
func (s *Store) Admitted(ctx context.Context, keys []string) ([]bool, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	open := make([]bool, len(keys))
	for i, key := range keys {
		if open[i] = s.scope.has(key); open[i] {
			continue
		}
		row, err := s.get(scopeKey(key))
		if err != nil {
			return nil, err
		}
		if open[i] = row != nil; open[i] {
			s.scope.add(key)
		}
	}
	return open, nil
}
