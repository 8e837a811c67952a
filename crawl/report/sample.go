// Package report has the account of a crawl: what the crawl has done, what limits it,
// and what its filter might have lost.
//
// It owns the figures, their JSON form and their text, and the computation of rates and
// limits from samples. Package crawl fills a Report and takes the samples. Except for
// CPUMeter, this package measures nothing, and it reads no clock.
package report

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
)

// Sample is the state of a crawl at one moment. Counters start at the beginning of the
// crawl or of the run. The caller must use the same start for all samples.
type Sample struct {
	Time    time.Time
	Started time.Time // when this run began

	Visits *Visits // as Status.Visits

	Pages    uint64 // answers, which --max-pages limits
	Finished uint64 // URLs that are done or failed
	Failed   uint64 // URLs that have failed
	Bytes    uint64 // of bodies
	Requests uint64
	Errors   uint64 // attempts that failed

	LastError *fetcher.LastError // the last attempt that failed; nil means that there is none
	Unreached bool               // no seed has been reached, and nothing can be tried now

	Queued  uint64 // URLs that wait, including delayed ones
	Delayed uint64 // queued URLs that wait for another attempt
	Leased  uint64
	Hosts   uint64 // hosts with queued or leased URLs

	Found, Added, Seen, Refused uint64

	Pauses    []string  // the rules of crawler pause in force
	FullHosts FullHosts // as in Report
	Causes    Errors    // as Errors in Report, with examples

	MaxPages uint64    // 0 means no limit
	Deadline time.Time // end of --max-time; zero means none
	Closed   bool      // no URL can be added any more

	Relays []RelayStatus // relays that deliver the crawl's events; this list can be some seconds old

	Gauges Gauges
}

// SeenShare returns the share of seen URLs among those that were not refused.
func (s Sample) SeenShare() float64 {
	return float64(s.Seen) / float64(max(s.Added+s.Seen, 1))
}
