package sizing_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/sizing"
)

// This example computes how much memory a filter takes, and how many URLs it loses.
func Example() {
	const urls, p = 100_000_000, 1e-6
	m, k := sizing.OptimalBits(urls, p)
	lost := urls * sizing.LostWhileFilling(urls, m, k)
	fmt.Printf("%d MiB, %d hash functions, %.1f URLs lost\n", m/8>>20, k, lost)
	// Output: 342 MiB, 20 hash functions, 6.6 URLs lost
}

// This example computes the size of a filter for a limit of lost URLs. Then it asks for a
// filter that is impossible, and prints the alternatives.
func ExampleSolve() {
	filter, err := sizing.Solve(sizing.Question{Keys: 100_000_000, LostKeys: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f bits per URL, p = %.2g when full\n", filter.BitsPerKey(), filter.FPR)

	_, err = sizing.Solve(sizing.Question{Keys: 100_000_000, Bits: 1 << 30, FPR: 1e-6})
	if impossible, ok := errors.AsType[*sizing.ImpossibleError](err); ok {
		for _, a := range impossible.Possible {
			fmt.Printf("possible: %d keys, %d MiB, p = %.2g\n", a.Keys, a.Bits/8>>20, a.FPR)
		}
	}
	// Output:
	// 19.03 bits per URL, p = 0.00011 when full
	// possible: 100000000 keys, 128 MiB, p = 0.0058
	// possible: 100000000 keys, 342 MiB, p = 1e-06
	// possible: 37340685 keys, 128 MiB, p = 1e-06
}

// This example prints the layers of a growing filter, and its rate, which stays below 0.01.
func ExampleChain() {
	chain := sizing.Chain{Keys: 1_000_000, FPR: 0.01, Growth: true}
	for _, keys := range []uint64{1_000_000, 3_000_000, 10_000_000} {
		fill := chain.At(keys)
		fmt.Printf("%d keys: %d layers, %.4f\n", keys, fill.Layers, fill.FPR)
	}
	// Output:
	// 1000000 keys: 1 layers, 0.0090
	// 3000000 keys: 2 layers, 0.0095
	// 10000000 keys: 4 layers, 0.0097
}

// This example reports what a crawl of 100 million URLs needs.
func ExamplePlan() {
	filter, err := sizing.Solve(sizing.Question{Keys: 100_000_000, FPR: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	report := sizing.Plan{
		Filter: filter, FPR: 1e-6, Growth: true, Hosts: 1_000_000, URLBytes: 80,
		BlockBits: sizing.DefaultBlockBits, Partitions: sizing.DefaultPartitions, Delay: time.Second, HostsAtOnce: 64,
	}.Report()
	fmt.Printf("%d MiB in one process, %d MiB in Redis, %.0f days\n",
		report.Memory.Bytes>>20, report.Redis.UsedMemory>>20, report.Time.Even/86400)
	// Output: 345 MiB in one process, 478 MiB in Redis, 18 days
}
