package localstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/recent"
)

// Pause implements frontier.Control.
func (s *Store) Pause(ctx context.Context, paused bool) error {
	return s.submit(ctx, &op{change: func(g *group) error {
		g.meta.Stats.Paused = paused
		g.changed = true
		return nil
	}})
}

// maxRetry bounds the failed items that one group queues again.
const maxRetry = 1000

// retryProgress is how far a Retry is.
type retryProgress struct {
	Next  []byte `json:"next,omitempty"` // key of the row with which the next step begins; nil means that no rows are left
	Last  uint64 `json:"last"`           // items that failed later are not queued again
	Total int    `json:"total"`          // how many items were queued again
}

// firstFailed returns the lowest key of the failed items that of can select.
func (s *Store) firstFailed(of *frontier.Failures) []byte {
	lower, _ := hostRange(tableFailed, of.Host)
	return lower
}

// Retry implements frontier.Control.
func (s *Store) Retry(ctx context.Context, of frontier.Failures) (int, error) {
	progress := retryProgress{Next: s.firstFailed(&of)}
	for progress.Next != nil {
		step := progress // a call that ctx has ended can change it later
		err := s.submit(ctx, &op{change: func(g *group) error { return g.retryStep(&of, &step) }})
		if err != nil {
			return progress.Total, err
		}
		crash.Point("requeued")
		progress = step
	}
	return progress.Total, nil
}

// retryStep does the next step of a retry.
func (g *group) retryStep(of *frontier.Failures, p *retryProgress) error {
	if p.Last == 0 {
		p.Last = g.meta.Seq
	}
	_, upper := hostRange(tableFailed, of.Host)
	n, next, err := g.retry(of, p.Next, upper, p.Last)
	p.Next = next
	p.Total += n
	return err
}

// retry queues the selected failed items between two keys again. It reads at most maxRetry rows.
// next is the key to continue from, or nil if no rows are left.
func (g *group) retry(of *frontier.Failures, lower, upper []byte, last uint64) (n int, next []byte, err error) {
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
		outcome, at, _, err := splitFailure(value)
		if err != nil {
			return false, fatal("read a failed item", err)
		}
		if !of.Select(outcome, time.Duration(g.now/1000-at)*time.Millisecond) {
			return true, nil
		}
		g.retried[seq] = true
		n++
		return true, g.requeueFailed(key, value)
	})
	return n, next, err
}

// requeueFailed queues the failed item in a row again.
func (g *group) requeueFailed(key, value []byte) error {
	h, err := g.hostOf(string(hostOfFailed(key)))
	if err != nil {
		return err
	}
	item, err := decodeFailed(value, h.key, g.hasher)
	if err != nil {
		return fatal("read a failed item", err)
	}
	g.remove(key)
	g.remove(outcomeKey(item.Fingerprint))
	g.exact[item.Fingerprint] = true
	g.remove(blobKey(h.key))
	item.Round, item.Attempts, item.Deliveries, item.Added = item.Round+1, 0, 0, frontier.MomentAt(g.age(g.now))
	g.enqueue(h, &item)
	g.meta.Stats.Failed--
	h.counts.Failed -= min(h.counts.Failed, 1) // an earlier version of the program did not count it
	g.move(h, 1, 0)
	return nil
}

// rememberedKeys is the minimum number of keys that each cache of scope keys or quota keys
// remembers. They take some megabytes.
const rememberedKeys = 1 << 18

// scopeCache remembers scope keys that are open (in the set), and keys that were closed
// (not in the set) when they were last looked up. An open key stays open. It is safe for
// concurrent use.
type scopeCache struct {
	open, closed *recent.Keys

	mu     sync.RWMutex
	opened uint64 // number of calls of add; each makes earlier look-ups of closed keys invalid
}

func newScopeCache() *scopeCache {
	return &scopeCache{open: recent.New(rememberedKeys), closed: recent.New(rememberedKeys)}
}

// look reports whether a key is open, if the cache has the key. If known is false, the
// caller reads the row of the key. If there is no row, the caller calls shut with the number
// that look returned as opened.
func (c *scopeCache) look(key string) (open, known bool, opened uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	open = c.open.Has(key)
	return open, open || c.closed.Has(key), c.opened
}

// add remembers that a key is open.
func (c *scopeCache) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.Add(key)
	c.closed.Remove(key)
	c.opened++
}

// shut remembers that a key is closed. It does nothing if add was called since look returned
// the number opened.
func (c *scopeCache) shut(key string, opened uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened == opened {
		c.closed.Add(key)
	}
}

// Admit implements frontier.Scope.
func (s *Store) Admit(ctx context.Context, keys []string) error {
	fresh := keys[:0:0]
	for _, key := range keys {
		if !s.scope.open.Has(key) {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := s.submit(ctx, &op{change: func(g *group) error {
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
	if err := s.hold(); err != nil {
		return nil, err
	}
	defer s.readers.Done()
	open := make([]bool, len(keys))
	for i, key := range keys {
		was, known, opened := s.scope.look(key)
		if open[i] = was; known {
			continue
		}
		row, err := s.get(scopeKey(key))
		if err != nil {
			return nil, err
		}
		if open[i] = row != nil; open[i] {
			s.scope.add(key)
		} else {
			s.scope.shut(key, opened)
		}
	}
	return open, nil
}
