package fetcher

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/internal/topk"
)

// tally counts what a worker does, for who watches it.
type tally struct {
	requests, robots, errors, bytes, finished, leasesLost atomic.Uint64

	// what is so now
	paying  atomic.Int64 // requests that wait for the worker's rate
	storing atomic.Int64 // completions that wait for the store
	ruling  atomic.Int64 // hosts that wait for a robots.txt
	due     atomic.Bool  // the store had due hosts that were not taken
	delay   atomic.Int64 // of the host that had to wait last

	mu    sync.Mutex
	hosts HostCounts
}

// hostsCounted is how many hosts a worker's sketches hold.
const hostsCounted = 1000

// HostCounts are bounded sketches of the hosts with the most of something.
type HostCounts struct {
	Pages   *topk.Sketch `json:"pages"`      // answers
	Errors  *topk.Sketch `json:"errors"`     // attempts that failed
	Waiting *topk.Sketch `json:"waiting_ms"` // ms that a worker held the host and waited for its delay
}

func newHostCounts() HostCounts {
	return HostCounts{topk.New(hostsCounted), topk.New(hostsCounted), topk.New(hostsCounted)}
}

// count adds n to a host in one of the sketches.
func (t *tally) count(sketch func(*HostCounts) *topk.Sketch, host string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sketch(&t.hosts).Add(host, n)
}

func pagesOf(c *HostCounts) *topk.Sketch   { return c.Pages }
func errorsOf(c *HostCounts) *topk.Sketch  { return c.Errors }
func waitingOf(c *HostCounts) *topk.Sketch { return c.Waiting }

// Hosts calls read with the worker's sketches; read must not keep them.
func (c *Crawl) Hosts(read func(HostCounts)) {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	read(c.tally.hosts)
}

// Progress is what a worker has done since New. The books of the crawl are the
// store's.
type Progress struct {
	Requests   uint64 `json:"requests"` // for pages
	Robots     uint64 `json:"robots"`   // requests for robots.txt
	Errors     uint64 `json:"errors"`   // attempts that failed
	Bytes      uint64 `json:"bytes"`    // of bodies, as they came
	Finished   uint64 `json:"finished"` // items that reached an outcome after a request
	LeasesLost uint64 `json:"leases_lost"`

	// What is so now.
	Hosts    int64 `json:"hosts"`     // leases held
	Waiting  int64 `json:"waiting"`   // of them, waiting for their host's delay
	Slots    int   `json:"slots"`     // hosts that can be asked at once
	Asking   int   `json:"asking"`    // hosts being asked
	Late     int   `json:"late"`      // more of them, which are late and take no slot
	Paying   int64 `json:"paying"`    // requests waiting for the worker's rate
	Storing  int64 `json:"storing"`   // completions waiting for the store
	Ruling   int64 `json:"ruling"`    // hosts waiting for a robots.txt
	DueWaits bool  `json:"due_waits"` // the store had due hosts that were not taken
	// Delay is that of the host that had to wait for it last: with many hosts
	// nearly always the usual one. 0: none had to.
	Delay time.Duration `json:"delay"`
}

// Progress returns the counters as of about now.
func (c *Crawl) Progress() Progress {
	held, late := c.held.Load(), len(c.slots.late)
	return Progress{
		Requests: c.tally.requests.Load(), Robots: c.tally.robots.Load(), Errors: c.tally.errors.Load(),
		Bytes: c.tally.bytes.Load(), Finished: c.tally.finished.Load(), LeasesLost: c.tally.leasesLost.Load(),
		Hosts: held, Waiting: max(held-c.ready.Load()-int64(late), 0), Slots: cap(c.slots.prompt), Asking: len(c.slots.prompt), Late: late,
		Paying: c.tally.paying.Load(), Storing: c.tally.storing.Load(), Ruling: c.tally.ruling.Load(),
		DueWaits: c.tally.due.Load(), Delay: time.Duration(c.tally.delay.Load()),
	}
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return strconv.Itoa(status) + " " + text
	}
	return strconv.Itoa(status)
}
