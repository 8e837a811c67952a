package exact_test

import (
	"testing"

	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// BenchmarkStore compares a queue in memory with the same queue behind a Store. It
// measures bulk items, which the Store only passes on, and exact items.
func BenchmarkStore(b *testing.B) {
	b.Run("store=queue", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return frontiertest.NewMemory(frontiertest.MemoryConfig{Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, Output: opt.Output})
		})
	})
	b.Run("store=bulk", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return crawl{openSuite(b, opt, exact.Windows{})}
		})
	})
	b.Run("store=exact", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return exactly{crawl{openSuite(b, opt, exact.Windows{})}}
		})
	})
}
