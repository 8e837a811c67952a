package fetcher

import (
	"context"
	"testing"
)

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
