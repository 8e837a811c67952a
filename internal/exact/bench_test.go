package exact_test

import (
	"testing"

	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// BenchmarkClient compares a queue in memory with the same queue and a set, for bulk items and for exact items.
func BenchmarkClient(b *testing.B) {
	b.Run("set=none", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return frontiertest.NewMemory(frontiertest.MemoryConfig{Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, Output: opt.Output})
		})
	})
	b.Run("set=bulk", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return openSuite(b, opt, exact.Windows{})
		})
	})
	b.Run("set=exact", func(b *testing.B) {
		frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
			return exactly{openSuite(b, opt, exact.Windows{})}
		})
	})
}
