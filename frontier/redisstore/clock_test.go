package redisstore

import (
	"sync/atomic"
	"time"
)

// testClock is the clock of a crawl that a test sets. A Store reads it in the background, too.
type testClock struct{ millis atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.millis.Store(1_700_000_000_000)
	return c
}

func (c *testClock) now() time.Time          { return time.UnixMilli(c.millis.Load()) }
func (c *testClock) advance(d time.Duration) { c.millis.Add(d.Milliseconds()) }
