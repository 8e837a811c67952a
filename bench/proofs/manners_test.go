package proofs

import (
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
	lag := lagOf(t, log, lines)
	lag.Stall = time.Duration(web.stalled.Load())
	figure(t, "requests", "%d to %d hosts: %d too early, %d replayed, %d against robots.txt, %d of unknown URLs",
		verdict.Requests, verdict.Hosts, verdict.TooEarly, verdict.Replayed, verdict.Disallowed, verdict.Unknown)
	if verdict.Closest != nil {
		figure(t, "worst-gap", "%v", verdict.Closest)
	}
	figure(t, "lateness", "%v", lag)
	if err := lag.Err(); err != nil {
		t.Error(err)
	}
	if verdict.TooEarly > 0 || verdict.Impatient > unheard {
		promised.Lag = lag.Most()
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

// lagOf returns how long after their start requests were read, as far as a record
// has it: the crawler notes the start of a URL's last request right before it
// writes it.
func lagOf(t *testing.T, log []testweb.Request, lines []line) testweb.LagFigures {
	t.Helper()
	lag := testweb.NewLag()
	for i := range log {
		lag.Read(&log[i])
	}
	for _, l := range lines {
		if l.Attempts > 0 {
			lag.Started(l.URL, l.FetchedAt)
		}
	}
	figures := lag.Figures()
	if figures.Requests == 0 {
		t.Fatal("no record has the start of a request")
	}
	return figures
}
