package fetcher

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// checkMemory returns an error if Memory is too small for one answer. An answer that does
// not fit would wait for ever.
func (c *Config) checkMemory() error {
	if least := LeastMemory(c.Client); c.Memory != 0 && c.Memory < least {
		return fmt.Errorf("fetcher: Memory is %d bytes, want at least %d for one answer and its document", c.Memory, least)
	}
	return nil
}

// linkMemory is the least part of a visit's memory for links, if its body and its document take
// as much as they may.
const linkMemory = 1 << 20

// LeastMemory returns the smallest Config.Memory that is allowed. It is the largest number of
// bytes that one answer, its document and its links can take, with the limits of client.
func LeastMemory(client *get.Client) int64 {
	return client.MaxHeld(get.Request{}) + extract.MaxDocumentMemory + linkMemory
}

// budget returns the Budget for the memory of all visits. Without Config.Memory, the Budget
// is so large that it never limits a visit. If sitemaps are read, one visit can hold the largest
// one, or the largest part of it that leaves a tenth of the memory for other visits (see request).
func (c *Config) budget() *budget.Budget {
	if c.Memory == 0 {
		return budget.New(math.MaxInt64, math.MaxInt64/2)
	}
	largest := LeastMemory(c.Client)
	if c.Policy().Sitemaps {
		listing := int64(sitemap.MaxBytes)
		for c.sitemapMemory(listing) > max(largest, c.Memory-c.Memory/10) {
			listing /= 2
		}
		largest = max(largest, c.sitemapMemory(listing))
	}
	return budget.New(c.Memory, largest)
}

// sitemapMemory returns the memory that a visit of a sitemap of maxBody bytes can take.
func (c *Config) sitemapMemory(maxBody int64) int64 {
	return c.Client.MaxHeld(get.Request{MaxBody: maxBody}) + sitemapChunks
}

// growShare adds bytes to the visit's share of the memory, or gives them back if their number is
// negative. If memory is short, it gives back the turn to parse and waits, because other visits
// may have the memory and need a turn to continue. It returns false if requests were aborted, or
// if no share can have so much memory.
func (v *visited) growShare(bytes int64) bool {
	if bytes > v.memory.Largest()-v.share.Size() {
		return false
	}
	if v.share.TryGrow(bytes) {
		return true
	}
	parsing := v.effort.parsing
	v.endParsing()
	return v.backlog.grow(v.hard, v.share, bytes) == nil && (!parsing || v.beginParsing())
}

// growth is the memory of one answer. Its method grow is get.Request.Grow.
type growth struct {
	share   *budget.Share
	backlog *backlog
	begun   time.Time
	waited  atomic.Int64 // ns for which the answer has waited for memory
}

func (c *Crawl) newGrowth(share *budget.Share) *growth {
	return &growth{share: share, backlog: &c.backlog, begun: time.Now()}
}

func (g *growth) grow(ctx context.Context, more int64) error {
	if g.share.TryGrow(more) {
		return nil
	}
	begun := time.Now()
	defer func() { g.waited.Add(int64(time.Since(begun))) }()
	return g.backlog.grow(ctx, g.share, more)
}

// explain returns the error of the request. If the request failed, and has waited for memory for
// half of its time, this is not the fault of the host, and the item is given back.
func (g *growth) explain(err error) error {
	waited := g.waited.Load()
	if err == nil || waited == 0 || 2*waited < int64(time.Since(g.begun)) {
		return err
	}
	return fmt.Errorf("%w: no memory in time: %w", get.ErrAborted, err)
}

// shrinkShare reduces the share to the bytes that the completion of the visit holds. If that is more
// than the visit has reserved, the share grows only if it need not wait.
func (v *visited) shrinkShare(bytes int64) {
	size := v.share.Size()
	v.share.TryGrow(min(bytes, v.memory.Largest()) - size)
}
