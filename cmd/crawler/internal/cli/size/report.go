package size

import (
	"fmt"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/sizing"
)

// report is the output of the command. --json prints it in this form. Sizes are in
// bytes, and times in seconds.
type report struct {
	Assumed []string            `json:"assumed,omitempty"` // flags that were not given
	Filter  filterReport        `json:"filter"`
	Growth  bool                `json:"growth"`
	Fills   []fillReport        `json:"fills"`
	Memory  sizing.MemoryLayout `json:"memory"`
	Redis   redisReport         `json:"redis"`
	Stores  []storeReport       `json:"exact_stores"`
	Queue   *queueReport        `json:"queue,omitempty"`
	Time    timeReport          `json:"time"`
	Reserve string              `json:"bf_reserve"`

	urlBytes int     // for the plot
	rate     float64 // false-positive rate that Memory and Redis are made for
}

// filterReport describes the plain filter, without layers or blocks, that has what the flags
// ask for.
type filterReport struct {
	sizing.Answer
	Bytes            uint64  `json:"bytes"`
	BitsPerURL       float64 `json:"bits_per_url"`
	InformationBound float64 `json:"information_bound_bits_per_url"`
	OverBound        float64 `json:"over_information_bound"`
}

// fillReport is the state of the filter with some number of URLs.
type fillReport struct {
	Of      float64     `json:"of"` // number of URLs as a multiple of the capacity
	Fixed   sizing.Fill `json:"without_growth"`
	Growing sizing.Fill `json:"with_growth"`
}

type redisReport struct {
	sizing.RedisLayout
	Blocks []blockReport `json:"block_sizes"`
	// ForkHeadroom is the additional memory that Redis can take while it saves or rewrites
	// its append-only file. Redis takes that much if all memory pages change in the
	// meantime.
	ForkHeadroom uint64 `json:"fork_headroom"`
	// UsedMemory is the memory of filter and queue, if the i-th host has a share of the URLs
	// that is proportional to 1/i.
	UsedMemory uint64 `json:"used_memory"`
}

// blockReport is the cost of a block size.
type blockReport struct {
	Bits       int     `json:"block_bits"`
	Hashes     uint    `json:"hashes"`
	BitsPerURL float64 `json:"bits_per_url"`
	AOFPerURL  float64 `json:"aof_bytes_per_url"`
}

type storeReport struct {
	sizing.StoreCost
	Bytes float64 `json:"bytes"`
	Times float64 `json:"times_the_filter"`
}

// queueReport has the sizes of a queue, without the filter, in each kind of crawl.
type queueReport struct {
	URLs  uint64 `json:"urls"`
	Redis uint64 `json:"redis_memory"`
	Disk  span   `json:"embedded_store_disk"`
	// Exact is the size in Postgres, in addition to Redis, if all URLs are exact: each of them
	// then has a row of its own.
	Exact span `json:"exact_tier_disk"`
}

// span is a range of sizes in bytes.
type span struct {
	Least uint64 `json:"least"`
	Most  uint64 `json:"most"`
}

type timeReport struct {
	Hosts          uint64  `json:"hosts"`
	HostsAtOnce    uint64  `json:"hosts_at_once"`
	PagesPerSecond float64 `json:"pages_per_second"`
	Even           float64 `json:"even"`
	Zipf           float64 `json:"zipf"`
	LargestHost    uint64  `json:"largest_host_urls"`
}

// newReport computes the whole report.
func newReport(o options, q question) report {
	a := q.answer
	hosts := uint64(o.hosts)
	assumed := q.assumed
	if hosts == 0 {
		hosts = max(a.Keys/defaultURLsPerHost, 1)
		assumed = append(assumed, fmt.Sprintf("--hosts %d", hosts))
	}
	r := report{
		Assumed: assumed,
		Filter: filterReport{
			Answer: a, Bytes: (a.Bits + 7) / 8, BitsPerURL: a.BitsPerKey(),
			InformationBound: sizing.InformationBound(a.FPR), OverBound: a.OverBound(),
		},
		Growth:  bool(o.growth),
		Fills:   fills(a, q.rate, 0.5, 1, 1.5, 2, 4),
		Memory:  sizing.SizeMemory(sizing.Chain{Keys: a.Keys, FPR: q.rate, Growth: bool(o.growth)}, sizing.DefaultShards),
		Time:    crawlTime(o, a.Keys, hosts),
		Reserve: fmt.Sprintf("BF.RESERVE crawl:seen %.4g %d NONSCALING", q.rate, a.Keys),

		urlBytes: o.urlBytes,
		rate:     q.rate,
	}
	if o.queued > 0 {
		queued := uint64(o.queued)
		r.Queue = &queueReport{URLs: queued, Redis: sizing.RedisQueue(queued, hosts, o.urlBytes)}
		r.Queue.Disk.Least, r.Queue.Disk.Most = sizing.LocalQueue(queued, o.urlBytes, false)
		r.Queue.Exact.Least, r.Queue.Exact.Most = sizing.PostgresWaiting(queued, o.urlBytes)
	}
	r.Redis = redis(o, q, hosts, r.Queue)
	for _, store := range sizing.ExactStores(a.Keys, o.urlBytes) {
		total := store.BytesPerKey * float64(a.Keys)
		r.Stores = append(r.Stores, storeReport{store, total, total / float64(r.Memory.Bytes)})
	}
	return r
}

// fills returns the states of the filter at multiples of its capacity.
func fills(a sizing.Answer, p float64, multiples ...float64) []fillReport {
	growing := sizing.Chain{Keys: a.Keys, FPR: p, Growth: true}
	var all []fillReport
	for _, of := range multiples {
		keys := uint64(math.Max(math.Round(of*float64(a.Keys)), 1))
		share := sizing.LostWhileFilling(keys, a.Bits, a.Hashes)
		fixed := sizing.Fill{
			Keys: keys, Layers: 1, Bits: a.Bits,
			FPR: sizing.FalsePositiveRate(keys, a.Bits, a.Hashes), LostShare: share, LostKeys: share * float64(keys),
		}
		all = append(all, fillReport{of, fixed, growing.At(keys)})
	}
	return all
}

func redis(o options, q question, hosts uint64, queue *queueReport) redisReport {
	r := redisReport{RedisLayout: sizing.SizeRedis(sizing.RedisPlan{
		Keys: q.answer.Keys, FPR: q.rate, Growth: bool(o.growth), Hosts: hosts,
		BlockBits: o.blockBits, Partitions: o.partitions,
	})}
	for _, block := range []int{512, 1024, 2048, 4096} {
		bits, k := sizing.ExactBlockedBits(q.rate, block)
		r.Blocks = append(r.Blocks, blockReport{block, k, bits, sizing.AOFPerURL(block)})
	}
	r.UsedMemory = r.Zipf.Bytes
	if queue != nil {
		r.UsedMemory += queue.Redis
	}
	r.ForkHeadroom = r.UsedMemory
	return r
}

func crawlTime(o options, urls, hosts uint64) timeReport {
	atOnce := uint64(o.workers) * uint64(o.concurrency)
	t := sizing.TimeToCrawl(sizing.CrawlPlan{
		URLs: urls, Hosts: hosts, Delay: o.delay, Latency: o.latency, HostsAtOnce: atOnce,
	})
	return timeReport{
		Hosts: hosts, HostsAtOnce: atOnce, PagesPerSecond: t.PagesPerSecond,
		Even: t.Even.Seconds(), Zipf: t.Zipf.Seconds(), LargestHost: t.LargestHost,
	}
}

// days formats a time in a suitable unit.
func days(seconds float64) string {
	const day, year = 24 * 3600, 365.25 * 24 * 3600
	switch {
	case seconds >= 292*year: // about the longest time.Duration
		return "more than 292 years"
	case seconds >= 2*year:
		return fmt.Sprintf("%.3g years", seconds/year)
	case seconds >= 2*day:
		return fmt.Sprintf("%.3g days", seconds/day)
	default:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
}
