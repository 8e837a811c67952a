package sizing

import (
	"math"
	"time"
)

// Plan describes a crawl and its filter, for Report.
type Plan struct {
	Filter      Answer        // a plain filter that has what the crawl needs
	FPR         float64       // rate that the layouts are made for; Filter.FPR can be slightly lower
	Growth      bool          // the filter grows by layers
	Hosts       uint64        // hosts of the crawl
	URLBytes    int           // mean length of a URL
	Queued      uint64        // URLs that wait at once; 0 means that the report has no queue
	Revisits    bool          // pages are visited again, and the report has their rows
	BlockBits   int           // bits of a block in Redis
	Partitions  int           // partitions in Redis
	Delay       time.Duration // see CrawlPlan
	Latency     time.Duration // see CrawlPlan
	HostsAtOnce uint64        // see CrawlPlan
}

// Report is what a Plan costs and loses. Sizes are in bytes.
type Report struct {
	Filter FilterReport  `json:"filter"`
	Growth bool          `json:"growth"`
	Fills  []FillReport  `json:"fills"` // at 0.5, 1, 1.5, 2 and 4 times the capacity
	Memory MemoryLayout  `json:"memory"`
	Redis  RedisReport   `json:"redis"`
	Stores []StoreReport `json:"exact_stores"`
	Queue  *QueueReport  `json:"queue,omitempty"`
	Rows   *RowsReport   `json:"page_rows,omitempty"`
	Time   CrawlTime     `json:"time"`
}

// FilterReport describes the plain filter of a Plan, without layers or blocks.
type FilterReport struct {
	Answer
	Bytes            uint64  `json:"bytes"`
	BitsPerURL       float64 `json:"bits_per_url"`
	InformationBound float64 `json:"information_bound_bits_per_url"`
	OverBound        float64 `json:"over_information_bound"`
}

// FillReport is the state of the filter with some number of URLs.
type FillReport struct {
	Of      float64 `json:"of"` // number of URLs as a multiple of the capacity
	Fixed   Fill    `json:"without_growth"`
	Growing Fill    `json:"with_growth"`
}

// RedisReport describes the memory of Redis.
type RedisReport struct {
	RedisLayout
	Blocks []BlockReport `json:"block_sizes"`
	// ForkHeadroom is the additional memory that Redis can take while it saves or rewrites
	// its append-only file. Redis takes that much if all memory pages change in the
	// meantime.
	ForkHeadroom uint64 `json:"fork_headroom"`
	// UsedMemory is the memory of filter, queue and the counts of hosts, if all hosts have equally many URLs.
	UsedMemory uint64 `json:"used_memory"`
}

// BlockReport is the cost of a block size.
type BlockReport struct {
	Bits       int     `json:"block_bits"`
	Hashes     uint    `json:"hashes"`
	BitsPerURL float64 `json:"bits_per_url"`
	AOFPerURL  float64 `json:"aof_bytes_per_url"`
}

// StoreReport is the size of the same URLs in an exact store.
type StoreReport struct {
	StoreCost
	Bytes float64 `json:"bytes"`
	Times float64 `json:"times_the_filter"`
}

// QueueReport has the sizes of a queue, without the filter, in each kind of crawl.
type QueueReport struct {
	URLs  uint64 `json:"urls"`
	Redis uint64 `json:"redis_memory"`
	Disk  Span   `json:"embedded_store_disk"`
	// Exact is the size in Postgres, in addition to Redis, if all URLs are exact: each of them
	// then has a row of its own.
	Exact Span `json:"exact_tier_disk"`
}

// RowsReport has the size on disk of what a crawl that visits its pages again remembers of them, if all URLs are pages.
type RowsReport struct {
	BytesPerPage float64 `json:"bytes_per_page"`
	Bytes        uint64  `json:"bytes"`
}

// Span is a range of sizes in bytes.
type Span struct {
	Least uint64 `json:"least"`
	Most  uint64 `json:"most"`
}

// Report computes what the plan costs and loses. All fields but Queued must be set, and of Delay
// and Latency one suffices. Report panics like the functions that it calls.
func (p Plan) Report() Report {
	a := p.Filter
	r := Report{
		Filter: FilterReport{
			Answer: a, Bytes: (a.Bits + 7) / 8, BitsPerURL: a.BitsPerKey(),
			InformationBound: InformationBound(a.FPR), OverBound: a.OverBound(),
		},
		Growth: p.Growth,
		Memory: SizeMemory(Chain{Keys: a.Keys, FPR: p.FPR, Growth: p.Growth}, DefaultShards),
		Time: TimeToCrawl(CrawlPlan{
			URLs: a.Keys, Hosts: p.Hosts, Delay: p.Delay, Latency: p.Latency, HostsAtOnce: p.HostsAtOnce,
		}),
	}
	for _, of := range []float64{0.5, 1, 1.5, 2, 4} {
		r.Fills = append(r.Fills, p.Fill(of))
	}
	if p.Queued > 0 {
		r.Queue = &QueueReport{URLs: p.Queued, Redis: RedisQueue(p.Queued, p.Hosts, p.URLBytes)}
		r.Queue.Disk.Least, r.Queue.Disk.Most = LocalQueue(p.Queued, p.URLBytes, false)
		r.Queue.Exact.Least, r.Queue.Exact.Most = PostgresWaiting(p.Queued, p.URLBytes)
	}
	if p.Revisits {
		each := RevisitBytes(p.URLBytes)
		r.Rows = &RowsReport{each, uint64(each * float64(a.Keys))}
	}
	r.Redis = p.redis(r.Queue)
	for _, store := range ExactStores(a.Keys, p.URLBytes) {
		total := store.BytesPerKey * float64(a.Keys)
		r.Stores = append(r.Stores, StoreReport{store, total, total / float64(r.Memory.Bytes)})
	}
	return r
}

// Fill returns the state of the filter at a multiple of its capacity.
func (p Plan) Fill(of float64) FillReport {
	a := p.Filter
	keys := uint64(math.Max(math.Round(of*float64(a.Keys)), 1))
	share := LostWhileFilling(keys, a.Bits, a.Hashes)
	fixed := Fill{
		Keys: keys, Layers: 1, Bits: a.Bits,
		FPR: FalsePositiveRate(keys, a.Bits, a.Hashes), LostShare: share, LostKeys: share * float64(keys),
	}
	return FillReport{of, fixed, Chain{Keys: a.Keys, FPR: p.FPR, Growth: true}.At(keys)}
}

func (p Plan) redis(queue *QueueReport) RedisReport {
	r := RedisReport{RedisLayout: SizeRedis(RedisPlan{
		Keys: p.Filter.Keys, FPR: p.FPR, Growth: p.Growth,
		BlockBits: p.BlockBits, Partitions: p.Partitions,
	})}
	for _, block := range []int{512, 1024, 2048, 4096} {
		bits, k := ExactBlockedBits(p.FPR, block)
		r.Blocks = append(r.Blocks, BlockReport{block, k, bits, AOFPerURL(block)})
	}
	r.UsedMemory = r.Bytes + RedisCounts(p.Hosts)
	if queue != nil {
		r.UsedMemory += queue.Redis
	}
	r.ForkHeadroom = r.UsedMemory
	return r
}
