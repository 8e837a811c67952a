package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// checkMemory refuses a budget in which one answer could wait for ever.
func (c *Config) checkMemory() error {
	if c.Memory == nil {
		return nil
	}
	if need := LargestShare(c.Client, false); c.Memory.Largest() < need {
		return fmt.Errorf("fetcher: shares of Memory hold up to %d bytes, want at least %d for one answer and its document",
			c.Memory.Largest(), need)
	}
	return nil
}

// LargestShare returns how much memory one answer to client and its document
// may take: what the shares of a Config.Memory must be able to hold. One that
// cannot hold the largest sitemaps has them cut.
func LargestShare(client *get.Client, sitemaps bool) int64 {
	largest := client.MaxHeld(get.Request{}) + extract.MaxDocumentMemory
	if sitemaps {
		largest = max(largest, client.MaxHeld(get.Request{MaxBody: sitemap.MaxBytes}))
	}
	return largest
}

// takeMemory gives a visit its share of the memory, which is empty at first;
// nil without a limit.
func (c *Crawl) takeMemory() (share *budget.Share, release func(), err error) {
	if c.cfg.Memory == nil {
		return nil, func() {}, nil
	}
	share, err = c.cfg.Memory.Take(c.hard, 0)
	if err != nil {
		return nil, func() {}, errors.Join(get.ErrAborted, err)
	}
	return share, share.Release, nil
}

// growing returns what asks for the memory of a body.
func growing(share *budget.Share) func(context.Context, int64) error {
	if share == nil {
		return nil
	}
	return share.Grow
}

// room returns what asks for the memory of a document: it never waits, for a
// page is read without one as well.
func (v *visited) room() func(bytes int64) bool {
	if v.share == nil {
		return nil
	}
	largest := v.cfg.Memory.Largest()
	return func(bytes int64) bool { return bytes <= largest-v.share.Size() && v.share.TryGrow(bytes) }
}

// takeReader waits until a body may be read; false: requests were aborted before.
func (c *Crawl) takeReader() bool {
	select {
	case c.readers <- struct{}{}:
	case <-c.hard.Done():
		return false
	}
	if c.hard.Err() != nil {
		<-c.readers
		return false
	}
	return true
}

// documentTime is how long a document may take to build: some are made to take
// hours.
const documentTime = 10 * time.Second

// impatience returns what gives a document up.
func (v *visited) impatience() func() bool {
	deadline := time.Now().Add(documentTime)
	return func() bool { return v.hard.Err() != nil || time.Now().After(deadline) }
}
