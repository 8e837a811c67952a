package proofs

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// judgeManners judges the politeness of a crawl. The argument lines contains the records of
// the crawl. The function uses the web's log and the default tolerance of testweb.Manners:
// 25 ms or a tenth of the delay, whichever is larger. The argument unheard is the maximum
// number of requests that came before a Retry-After was over, because a kill lost the answer with it: see fetchedOnce.
//
// The web reads a request later than the crawler starts it. On a busy machine it can be
// much later. Then the gap after this request looks too short. If some gaps look too
// short, judgeManners judges again with a larger tolerance: it adds the longest lag of
// a request and the longest stall of the web's process. The stall is added because the
// lag of a request for robots.txt is not known: such a request has no record.
func judgeManners(t *testing.T, web *site, lines []line, unheard int) {
	t.Helper()
	log := web.Log()
	promised := testweb.Manners{Delay: hostDelay()}
	verdict := web.Judge(log, promised)
	lag := lagOf(t, log, lines)
	lag.Stall = time.Duration(web.stalled.Load())
	figure(t, "requests", "%d to %d hosts: %d too early, %d against robots.txt, %d of unknown URLs",
		verdict.Requests, verdict.Hosts, verdict.TooEarly, verdict.Disallowed, verdict.Unknown)
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

// lagOf measures the time from the start of a request until the web read it. It uses
// the last request for each URL that has a record. The record contains the start of the
// request: the time directly before the crawler sends it.
func lagOf(t *testing.T, log []testweb.Request, lines []line) testweb.Lag {
	t.Helper()
	started := map[string]time.Time{}
	for _, l := range lines {
		if l.Attempts > 0 {
			started[l.URL] = l.FetchedAt
		}
	}
	lag := testweb.LagOf(log, started)
	if lag.Requests == 0 {
		t.Fatal("no record says when its request started")
	}
	return lag
}
