package fetcher

import (
	"net/http"
	"strconv"
	"sync/atomic"
)

// tally counts what a worker does, for who watches it.
type tally struct {
	requests, robots, errors, bytes, finished, leasesLost atomic.Uint64
}

// Progress is what a worker has done since New. The books of the crawl are the
// store's.
type Progress struct {
	Requests   uint64 // for pages
	Robots     uint64 // requests for robots.txt
	Errors     uint64 // attempts that failed
	Bytes      uint64 // of bodies, as they came
	Finished   uint64 // items that reached an outcome after a request
	LeasesLost uint64
	Hosts      int64 // leases held now
	Waiting    int64 // of them, waiting for their host's delay
}

// Progress returns the counters as of about now.
func (c *Crawl) Progress() Progress {
	held := c.held.Load()
	return Progress{
		Requests: c.tally.requests.Load(), Robots: c.tally.robots.Load(), Errors: c.tally.errors.Load(),
		Bytes: c.tally.bytes.Load(), Finished: c.tally.finished.Load(), LeasesLost: c.tally.leasesLost.Load(),
		Hosts: held, Waiting: max(held-c.ready.Load(), 0),
	}
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return strconv.Itoa(status) + " " + text
	}
	return strconv.Itoa(status)
}
