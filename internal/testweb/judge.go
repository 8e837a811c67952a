package testweb

import (
	"cmp"
	"fmt"
	"time"
)

// Manners are the rules of politeness that a crawl must keep.
type Manners struct {
	// Delay is the minimum time between the starts of two requests to one host,
	// including robots.txt. If robots.txt sets a longer Crawl-delay, that applies
	// between the requests after robots.txt. 0 means that the crawl has no delay.
	Delay time.Duration
	// Tolerance is the time by which a gap in the log can be shorter than the delay without
	// being a fault. The server reads a request later than the crawler starts it, so a gap
	// can look too short. 0 means 25 ms, or 10 % of the delay if that is more.
	Tolerance time.Duration
	// Lag is added to the tolerance. It is the maximum time from the start of a request
	// until the server reads it. On a busy machine this time can be long. See Lag.Most.
	Lag time.Duration
}

// tolerance returns the time by which a gap can be shorter than the delay.
func (m Manners) tolerance(delay time.Duration) time.Duration {
	return cmp.Or(m.Tolerance, max(25*time.Millisecond, delay/10)) + m.Lag
}

// Gap is the time between the starts of two requests to one host.
type Gap struct {
	Host          string
	Before, After string // paths of the two requests
	Gap, Want     time.Duration
}

func (g Gap) String() string {
	return fmt.Sprintf("%s: %s %v after %s, want %v", g.Host, g.After, g.Gap.Round(time.Microsecond), g.Before, g.Want)
}

// Verdict counts the faults of a crawl's requests.
type Verdict struct {
	Requests int // all requests
	Hosts    int // hosts with at least one request

	// Faults.
	TooEarly    int // requests that started before their host's delay was over
	Impatient   int // requests for a URL before its Retry-After was over
	Disallowed  int // requests that robots.txt disallows
	Unannounced int // hosts with a page that was requested before robots.txt
	Unknown     int // requests for URLs that no page links to
	Trapped     int // requests for URLs of traps that no crawl should follow

	// Refetched counts requests that a crawl without a crash does not make. After a
	// crash, the requests that were in flight are repeated.
	Refetched int

	// Closest is the gap with the smallest difference Gap - Want, even if it is within
	// the tolerance. It is nil if no delay applied.
	Closest  *Gap
	Examples []string // up to three of each fault
}

// Err returns nil if the crawl has no faults, or an error that names every fault.
// Refetched requests are not a fault.
func (v *Verdict) Err() error {
	return faultError([]namedCount{
		{v.TooEarly, "requests too early"},
		{v.Impatient, "requests before Retry-After was over"},
		{v.Disallowed, "requests that robots.txt disallows"},
		{v.Unannounced, "hosts asked before their robots.txt"},
		{v.Unknown, "requests for unknown URLs"},
		{v.Trapped, "requests within a trap"},
	}, v.Examples)
}

// Judge judges a crawl by the log of its requests.
func (w *Web) Judge(log []Request, promised Manners) Verdict {
	j := &judge{
		web: w, promised: promised, hosts: map[string]*visited{}, fetched: map[target]bool{},
		retryAt: map[string]time.Duration{}, series: map[string]int{},
	}
	for i := range log {
		j.observe(&log[i])
	}
	return j.verdict
}

// A judge judges requests in the order of their starts.
type judge struct {
	web      *Web
	promised Manners
	hosts    map[string]*visited
	fetched  map[target]bool          // URLs that were requested
	retryAt  map[string]time.Duration // earliest time of the next request for a URL after a Retry-After
	series   map[string]int           // requests by series of endless sites
	verdict  Verdict
}

// visited is what a judge remembers about one host.
type visited struct {
	path        string        // of the last request
	start       time.Duration // of the last request
	delay       time.Duration // the delay that the next request must keep
	robotsAsked bool          // robots.txt was requested, or Unannounced counts the host
}

func (j *judge) observe(r *Request) {
	j.verdict.Requests++
	t := j.web.target(r.Host, r.Path)
	host, wasAsked := j.hosts[r.Host]
	if wasAsked {
		j.observeGap(host, r)
	} else {
		host = &visited{delay: j.promised.Delay}
		j.hosts[r.Host] = host
		j.verdict.Hosts++
	}
	isRobots := t.kind == aRobots || t.kind == aDeadRobots || t.kind == aResource && t.resource.role == aside
	switch {
	case isRobots:
		host.robotsAsked = true
	case t.kind == unknown:
		j.fault(&j.verdict.Unknown, r, "is not linked by any page")
	case !host.robotsAsked:
		host.robotsAsked = true // so that the fault is reported once for each host
		j.fault(&j.verdict.Unannounced, r, "was asked for before robots.txt")
	}
	// host.delay is for the gap between r and the next request. A Crawl-delay does not apply
	// directly after a request for robots.txt, but after later requests for pages and redirects.
	if t.kind == aRobots {
		host.delay = j.promised.Delay
	} else if host.robotsAsked && (t.kind == aPage || t.kind == aHop) {
		host.delay = max(j.promised.Delay, j.web.crawlDelay(j.web.hostOf(t)))
	}
	host.path, host.start = r.Path, r.Start
	j.observeURL(t, r)
}

// observeGap judges the time between the last request to a host and r.
func (j *judge) observeGap(host *visited, r *Request) {
	want := host.delay
	if want <= 0 {
		return
	}
	gap := Gap{Host: r.Host, Before: host.path, After: r.Path, Gap: r.Start - host.start, Want: want}
	if closest := j.verdict.Closest; closest == nil || gap.Gap-want < closest.Gap-closest.Want {
		j.verdict.Closest = &gap
	}
	if gap.Gap >= want-j.promised.tolerance(want) {
		return
	}
	j.fault(&j.verdict.TooEarly, r, fmt.Sprintf("started %v after %s, want %v", gap.Gap, host.path, want))
}

// observeURL judges r by earlier requests for the same URL, and by the rules of
// robots.txt.
func (j *judge) observeURL(t target, r *Request) {
	if t.kind == aResource && t.resource.role == trapped {
		j.fault(&j.verdict.Trapped, r, "leads deeper into a trap")
	}
	if t.kind == aResource && t.resource.role == withoutEnd {
		if j.series[t.resource.series]++; j.series[t.resource.series] > mostOfSeries {
			j.fault(&j.verdict.Trapped, r, fmt.Sprintf("is the request %d of a series without an end", j.series[t.resource.series]))
		}
	}
	if !t.isExpected() {
		return
	}
	if t.kind == aResource && t.resource.role == closed {
		j.fault(&j.verdict.Disallowed, r, "is disallowed by robots.txt")
	}
	if j.fetched[t] && t.kind != aDeadPage && j.needed(t) < max(r.Attempt, 2) {
		j.verdict.Refetched++
	}
	j.fetched[t] = true
	if t.kind != aPage {
		return
	}
	if j.web.fateOf(t.page) == fateRobots {
		j.fault(&j.verdict.Disallowed, r, "is disallowed by robots.txt")
	}
	url := r.Host + r.Path
	if until, wasAsked := j.retryAt[url]; wasAsked && r.Start < until-j.promised.tolerance(0) {
		j.fault(&j.verdict.Impatient, r, fmt.Sprintf("was asked for again %v before its Retry-After was over", until-r.Start))
	}
	if r.RetryAfter > 0 {
		j.retryAt[url] = r.Start + r.RetryAfter
	}
}

// needed returns how many requests a correct crawl, with four attempts, makes for t.
func (j *judge) needed(t target) int {
	const attempts = 4
	if t.kind == aResource {
		return min(t.resource.fails+1, attempts)
	}
	if t.kind != aPage {
		return 1
	}
	return min(j.web.fateOf(t.page).fails+1, attempts)
}

// fault counts a fault, and keeps up to three examples for each counter.
func (j *judge) fault(count *int, r *Request, what string) {
	if *count++; *count <= 3 {
		j.verdict.Examples = append(j.verdict.Examples, fmt.Sprintf("http://%s%s %s", r.Host, r.Path, what))
	}
}
