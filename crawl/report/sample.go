// Package report is the account of a crawl: what it has done, what limits it, and
// what its filter may have lost.
//
// It owns the figures, their JSON form and their text, and the arithmetic from
// samples to rates and limits. It measures nothing and reads no clock: package
// crawl fills a Report and takes the samples.
package report

import (
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Sample is the state of a crawl at one moment. Counters start at the beginning of
// the crawl or of the run; the caller uses the same start for all samples.
type Sample struct {
	Time    time.Time
	Started time.Time // of this run

	Pages    uint64 // what --max-pages counts
	Finished uint64 // URLs done or failed
	Failed   uint64 // of them, failed
	Bytes    uint64 // of bodies
	Requests uint64
	Errors   uint64 // attempts that failed

	LastError *LastError // the newest of them; nil means that there is none
	Unreached bool       // no seed has been reached, and nothing can be tried now

	Queued  uint64 // waiting, delayed or not
	Delayed uint64 // of them, delayed
	Leased  uint64
	Hosts   uint64 // hosts with queued or leased URLs

	Found, Added, Seen, Refused uint64

	MaxPages uint64    // 0 means no limit
	Deadline time.Time // of --max-time; zero means none
	Closed   bool      // nothing can be added any more: the queue is all there is

	Relays []Relay // that deliver its events, as of some seconds ago

	Gauges Gauges
}

// LastError is the cause of the last attempt that failed.
type LastError struct {
	Time  time.Time `json:"time"`
	Host  string    `json:"host,omitempty"` // empty means that this machine could not make the request
	Error string    `json:"error"`
}

// String names the host and what failed, fit for a terminal.
func (e *LastError) String() string {
	if e.Host == "" {
		return human.Printable(e.Error)
	}
	return human.Printable(e.Host + ": " + e.Error)
}

// SeenShare returns the share of seen URLs among those that were not refused.
func (s Sample) SeenShare() float64 {
	return float64(s.Seen) / float64(max(s.Added+s.Seen, 1))
}
