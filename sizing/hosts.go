package sizing

import (
	"fmt"
	"math"
	"time"
)

// ZipfLoads returns how many of n keys each partition gets. The i-th largest host has a
// share proportional to 1/i (Zipf's law, which the sizes of web sites roughly follow),
// and a hash chooses the partition of a host. ZipfLoads is deterministic. If there
// are more than a million hosts, it spreads the keys of all hosts except the largest million
// evenly over the partitions. It panics unless hosts > 0 and partitions > 0.
func ZipfLoads(n, hosts uint64, partitions int) []uint64 {
	if hosts == 0 || partitions < 1 {
		panic(fmt.Sprintf("sizing: %d hosts in %d partitions", hosts, partitions))
	}
	const single = 1e6
	scale := float64(n) / harmonic(hosts)
	loads := make([]float64, partitions)
	rest := float64(n)
	for i := range min(hosts, single) {
		size := scale / float64(i+1)
		loads[mix(i)%uint64(partitions)] += size
		rest -= size
	}
	keys := make([]uint64, partitions)
	for i, load := range loads {
		keys[i] = uint64(math.Round(load + max(rest, 0)/float64(partitions)))
	}
	return keys
}

// LargestHost returns how many of n keys the largest host has under Zipf's law. It
// panics if hosts is 0.
func LargestHost(n, hosts uint64) uint64 {
	return uint64(math.Ceil(float64(n) / harmonic(hosts)))
}

func evenLoads(n uint64, partitions int) []uint64 {
	loads := make([]uint64, partitions)
	for i := range loads {
		loads[i] = n / uint64(partitions)
		if uint64(i) < n%uint64(partitions) {
			loads[i]++
		}
	}
	return loads
}

// harmonic returns 1 + 1/2 + ... + 1/n. For n > 100 it uses Euler's expansion.
func harmonic(n uint64) float64 {
	if n == 0 {
		panic("sizing: 0 hosts")
	}
	if n > 100 {
		const gamma = 0.57721566490153286
		x := float64(n)
		return math.Log(x) + gamma + 1/(2*x) - 1/(12*x*x)
	}
	sum := 0.0
	for i := n; i > 0; i-- {
		sum += 1 / float64(i)
	}
	return sum
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// CrawlPlan describes a polite crawl, for TimeToCrawl.
type CrawlPlan struct {
	URLs        uint64
	Hosts       uint64
	Delay       time.Duration // between the starts of two requests to one host
	Latency     time.Duration // of one answer
	HostsAtOnce uint64        // hosts to which all workers together send requests at the same time
}

// CrawlTime is the minimum duration of a crawl, in seconds. A host gets one request per delay
// or latency, whichever is longer. HostsAtOnce limits the rate of the whole crawl. More
// workers do not shorten the time that the largest host takes.
type CrawlTime struct {
	Hosts          uint64  `json:"hosts"`
	HostsAtOnce    uint64  `json:"hosts_at_once"`
	PagesPerSecond float64 `json:"pages_per_second"`  // while enough hosts have URLs left
	Even           float64 `json:"even"`              // hosts of equal size
	Zipf           float64 `json:"zipf"`              // hosts whose sizes follow Zipf's law
	LargestHost    uint64  `json:"largest_host_urls"` // URLs of the largest host under Zipf's law
}

// TimeToCrawl returns the minimum duration of a crawl. It panics unless URLs, Hosts,
// HostsAtOnce and at least one of Delay and Latency are above 0.
func TimeToCrawl(plan CrawlPlan) CrawlTime {
	pace := max(plan.Delay, plan.Latency).Seconds()
	if plan.URLs == 0 || plan.Hosts == 0 || plan.HostsAtOnce == 0 || pace <= 0 {
		panic(fmt.Sprintf("sizing: crawl of %d URLs on %d hosts, %d at once, one page in %g s",
			plan.URLs, plan.Hosts, plan.HostsAtOnce, pace))
	}
	rate := float64(min(plan.HostsAtOnce, plan.Hosts)) / pace
	largest := LargestHost(plan.URLs, plan.Hosts)
	all := float64(plan.URLs) / rate
	return CrawlTime{
		Hosts: plan.Hosts, HostsAtOnce: plan.HostsAtOnce,
		PagesPerSecond: rate, LargestHost: largest,
		Even: max(all, math.Ceil(float64(plan.URLs)/float64(plan.Hosts))*pace),
		Zipf: max(all, float64(largest)*pace),
	}
}
