package crawl

import (
	"sync"
	"time"
)

// policyTime is how long a worker of a crawl in Redis trusts the policy that it knows, from the time when it asked for the
// newest one. A change of the policy therefore holds for all workers after this time, also for those that have lost
// their server or were suspended.
const policyTime = 4 * time.Second

// confirmation says until when the policy that a worker knows may be obeyed. Its zero value is over.
type confirmation struct {
	mu    sync.Mutex
	until time.Duration // by sinceBoot
	open  chan struct{} // closed by the next call of extend; nil if no request waits
}

// extend notes that the policy was the newest one at a time by sinceBoot.
func (c *confirmation) extend(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = at + policyTime
	if c.open != nil && sinceBoot() < c.until {
		close(c.open)
		c.open = nil
	}
}

// opening implements fetcher.Config.Unconfirmed.
func (c *confirmation) opening() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sinceBoot() < c.until {
		return nil
	}
	if c.open == nil {
		c.open = make(chan struct{})
	}
	return c.open
}
