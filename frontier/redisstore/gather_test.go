package redisstore

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestLongURLsCountMore: the URLs of a group of asks have at most about 2 MiB, however long they
// are.
func TestLongURLsCountMore(t *testing.T) {
	for _, length := range []int{10, 500, 2000, frontier.MaxURLBytes} {
		o := &offering{asks: make([]ask, 10_000)}
		for i := range o.asks {
			o.asks[i].item.URL = strings.Repeat("x", length)
		}
		fits := maxGroupAsks * len(o.asks) / o.size()
		if bytes := fits * length; bytes > maxGroupAsks*maxAskBytes || length < maxAskBytes && fits != maxGroupAsks {
			t.Errorf("URLs of %d bytes: %d of them, with %d bytes, are decided together", length, fits, bytes)
		}
	}
}
