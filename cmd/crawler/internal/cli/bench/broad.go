package bench

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/bench/crawl"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/internal/human"
)

// addBroad declares the flags that concern only the crawl of many hosts.
func addBroad(f *pflag.FlagSet, c *crawl.BroadConfig) {
	f.Var((*human.Count)(&c.Hosts), "hosts", "broad: hosts of the web (default 20k)")
	restrict.Within(f, "hosts", &c.Hosts, 1, maxBroadHosts, "a whole number from 1 to 10M, such as 20k")
	f.StringSliceVar(&c.Concurrency, "concurrency", nil, "broad: `LIST` of hosts asked at once, numbers or auto (default 64,1000,4000)")
	restrict.Check(f, "concurrency", func(text string) error {
		if n, err := strconv.Atoi(text); text != crawl.AutoConcurrency && (err != nil || n < 1 || n > maxConcurrency) {
			return fmt.Errorf("want whole numbers from 1 to 100000, or %s, as in 64,1000,%s", crawl.AutoConcurrency, crawl.AutoConcurrency)
		}
		return nil
	})
	restrict.Number(f, &c.Time, "each", 0, "broad: `TIME` of each crawl, shorter if --budget is too small (default 15s)",
		1, math.MaxInt64, "a time of more than 0 with its unit, such as 15s")
	f.BoolVar(&c.TLS, "tls", false, "broad: crawl over TLS, too")
}

// Bounds of --hosts and --concurrency.
const (
	maxBroadHosts  = 10_000_000
	maxConcurrency = 100_000
)
