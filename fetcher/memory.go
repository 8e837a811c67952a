package fetcher

import (
	"fmt"
	"math"
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

// LeastMemory returns the smallest Config.Memory that is allowed. It is the largest number of
// bytes that one answer and its document can take, with the limits of client.
func LeastMemory(client *get.Client) int64 {
	return client.MaxHeld(get.Request{}) + extract.MaxDocumentMemory
}

// budget returns the Budget for the memory of all visits. Without Config.Memory, the Budget
// is so large that it never limits a visit. If sitemaps are read and the memory has room for
// two of the largest ones, one visit can hold such a sitemap. Otherwise large sitemaps are
// cut.
func (c *Config) budget() *budget.Budget {
	if c.Memory == 0 {
		return budget.New(math.MaxInt64, math.MaxInt64/2)
	}
	largest := LeastMemory(c.Client)
	if listing := c.Client.MaxHeld(get.Request{MaxBody: sitemap.MaxBytes}); c.Sitemaps && listing <= c.Memory/2 {
		largest = max(largest, listing)
	}
	return budget.New(c.Memory, largest)
}

// room takes the memory for a document. If it is short, room gives back the turn to parse and
// waits, because other visits may have the memory and need a turn to continue. It returns false
// if requests were aborted, or if no share can have so much memory. The caller must have called
// beginParsing.
func (v *visited) room(bytes int64) bool {
	if bytes > v.memory.Largest()-v.share.Size() {
		return false
	}
	if v.share.TryGrow(bytes) {
		return true
	}
	v.endParsing()
	return v.share.Grow(v.hard, bytes) == nil && v.beginParsing()
}

// takeReader waits until another body may be parsed. It returns false if requests were aborted.
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

// beginParsing waits for the visit's turn to parse. It returns false if requests were aborted.
func (v *visited) beginParsing() bool {
	v.parsing = v.takeReader()
	return v.parsing
}

// endParsing gives the turn back, if the visit has it.
func (v *visited) endParsing() {
	if v.parsing {
		v.parsing = false
		<-v.readers
	}
}

// documentTime is how long building a document may take. Some pages are made to take
// hours.
const documentTime = 10 * time.Second

// impatience returns a function that reports whether to give up building a document, or taking
// data from it. The time begins with the first call, so that it does not count how long the
// page waits for its turn and for memory.
func (v *visited) impatience() func() bool {
	var deadline time.Time
	return func() bool {
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(v.documentTime)
		}
		return v.hard.Err() != nil || now.After(deadline)
	}
}
