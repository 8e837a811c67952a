package proofs

import (
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/testweb"
)

// judgeManners says how the crawl that wrote lines treated the hosts, by the
// web's log: with the judge's tolerance of 25 ms, or a tenth of the delay. A
// crawler that was killed may have died with up to unheard Retry-Afters.
//
// The web sees a request later than it started, and on a busy machine much
// later: then the gap behind it looks too short. So when gaps do, they are
// judged again with the worst lateness of all requests on top.
func judgeManners(t *testing.T, web *site, lines []line, unheard int) {
	t.Helper()
	log := web.Log()
	promised := testweb.Manners{Delay: hostDelay()}
	verdict := web.Judge(log, promised)
	median, worst := lateness(t, web.pages(), lines)
	figure(t, "requests", "%d to %d hosts: %d too early, %d replayed, %d against robots.txt, %d of unknown URLs",
		verdict.Requests, verdict.Hosts, verdict.TooEarly, verdict.Replayed, verdict.Disallowed, verdict.Unknown)
	if verdict.Closest != nil {
		figure(t, "worst-gap", "%v", verdict.Closest)
	}
	figure(t, "lateness", "%v median and %v at most from a request's start to its being read", median, worst)
	if median > 10*time.Millisecond {
		t.Errorf("requests are read %v after their start, the median, want 10ms at most: is the start noted too early?", median)
	}
	if verdict.TooEarly > 0 || verdict.Impatient > unheard {
		promised.Tolerance = max(25*time.Millisecond, promised.Delay/10) + worst
		busy := web.Judge(log, promised)
		figure(t, "too-early-beyond-the-lateness", "%d", busy.TooEarly)
		verdict = busy
	}
	if verdict.Impatient <= unheard {
		verdict.Impatient = 0
	}
	if err := verdict.Err(); err != nil {
		t.Error(err)
	}
}

// lateness returns how long after their start the requests of log were read,
// as far as a record has it: the crawler notes the start of a URL's last request
// right before it writes it. Clocks are compared by the fastest request.
func lateness(t *testing.T, log []asked, lines []line) (median, worst time.Duration) {
	t.Helper()
	read := make(map[string]time.Duration, len(log)) // since the web was made
	for _, r := range log {
		read[r.url] = r.Start
	}
	var late []time.Duration
	for _, l := range lines {
		if at, wasRead := read[l.URL]; wasRead && l.Attempts > 0 {
			late = append(late, at-time.Duration(l.FetchedAt.UnixNano()))
		}
	}
	if len(late) == 0 {
		t.Fatal("no record has the start of a request")
	}
	slices.Sort(late)
	fastest := late[0]
	round := func(d time.Duration) time.Duration { return (d - fastest).Round(100 * time.Microsecond) }
	return round(late[len(late)/2]), round(late[len(late)-1])
}
