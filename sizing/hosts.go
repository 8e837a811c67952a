package sizing

import (
	"fmt"
	"math"
	"time"
)

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
	PagesPerSecond float64 `json:"pages_per_second"` // while enough hosts have URLs left
	Even           float64 `json:"even"`             // hosts of equal size
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
	return CrawlTime{
		Hosts: plan.Hosts, HostsAtOnce: plan.HostsAtOnce, PagesPerSecond: rate,
		Even: max(float64(plan.URLs)/rate, math.Ceil(float64(plan.URLs)/float64(plan.Hosts))*pace),
	}
}
