package fetcher

import (
	"context"
	"testing"
	"time"
)

// OccupyParsers takes the turns of all parsers until the returned function is called.
func (c *Crawl) OccupyParsers() (release func()) {
	for range cap(c.readers) {
		c.readers <- struct{}{}
	}
	return func() {
		for range cap(c.readers) {
			<-c.readers
		}
	}
}

// SetDocumentTime replaces documentTime. It must be called before Run.
func (c *Crawl) SetDocumentTime(d time.Duration) { c.documentTime = d }

// OnStep sets a function that is called every few steps of the work on the page at url. It must
// be called before Run.
func (c *Crawl) OnStep(step func(url string)) { c.onStep = step }

// MemoryTaken returns how many bytes of Config.Memory all visits hold.
func (c *Crawl) MemoryTaken() int64 { return c.memory.Taken() }

// TestNoPageIsReadAfterTheAbort calls takeReader after requests were aborted, while
// there is a free place for a reader. The abort must win each time.
func TestNoPageIsReadAfterTheAbort(t *testing.T) {
	aborted, abort := context.WithCancel(t.Context())
	c := &Crawl{hard: aborted, readers: make(chan struct{}, 1)}
	if !c.takeReader() {
		t.Fatal("takeReader() = false before the abort")
	}
	<-c.readers
	abort()
	for range 100 {
		if c.takeReader() {
			t.Fatal("takeReader() = true after the abort")
		}
		if len(c.readers) != 0 {
			t.Fatal("the reader was not given back")
		}
	}
}
