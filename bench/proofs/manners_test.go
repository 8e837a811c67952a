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
// judged again with the worst lateness of all requests on top, and the longest
// stall of the web's process: the lateness of a robots.txt is in no record.
func judgeManners(t *testing.T, web *site, lines []line, unheard int) {
	t.Helper()
	log := web.Log()
	promised := testweb.Manners{Delay: hostDelay()}
	verdict := web.Judge(log, promised)
	least, median, worst := lateness(t, web, lines)
	stall := time.Duration(web.stalled.Load()).Round(time.Millisecond)
	figure(t, "requests", "%d to %d hosts: %d too early, %d replayed, %d against robots.txt, %d of unknown URLs",
		verdict.Requests, verdict.Hosts, verdict.TooEarly, verdict.Replayed, verdict.Disallowed, verdict.Unknown)
	if verdict.Closest != nil {
		figure(t, "worst-gap", "%v", verdict.Closest)
	}
	figure(t, "lateness", "%v median and %v at most from a request's start to its being read; the web stalled for up to %v", median, worst, stall)
	if least > 10*time.Millisecond {
		t.Errorf("every request is read %v or more after its start, want 10ms at most for the fastest: is the start noted too early?", least)
	}
	if verdict.TooEarly > 0 || verdict.Impatient > unheard {
		promised.Tolerance = max(25*time.Millisecond, promised.Delay/10) + worst + stall
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

// lateness returns how long after their start requests were read, as far as a
// record has it: the crawler notes the start of a URL's last request right
// before it writes it.
func lateness(t *testing.T, web *site, lines []line) (least, median, worst time.Duration) {
	t.Helper()
	read := make(map[string]time.Time)
	for _, r := range web.pages() {
		read[r.url] = web.made.Add(r.Start)
	}
	var late []time.Duration
	for _, l := range lines {
		if at, wasRead := read[l.URL]; wasRead && l.Attempts > 0 {
			late = append(late, at.Sub(l.FetchedAt))
		}
	}
	if len(late) == 0 {
		t.Fatal("no record has the start of a request")
	}
	slices.Sort(late)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // as records have it
	return round(late[0]), round(late[len(late)/2]), round(late[len(late)-1])
}
