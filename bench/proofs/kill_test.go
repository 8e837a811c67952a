package proofs

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A kill ends a run of the crawler with SIGKILL.
type kill struct {
	point    string // the name of the step (crash point) at which the crawler kills itself; empty means that this process kills it
	times    int    // the crawler kills itself at this visit of point, counted from 1
	requests int    // number of further requests after which this process kills the crawler
}

func (k kill) String() string {
	if k.point == "" {
		return fmt.Sprintf("request %d", k.requests)
	}
	return fmt.Sprintf("%s:%d", k.point, k.times)
}

// flags returns the flags that make the crawler kill itself.
func (k kill) flags() []string {
	if k.point == "" {
		return nil
	}
	return []string{"--crash-at", k.String()}
}

// drawKills returns the kills of a proof in random order, except for those that rank puts
// first or last. At least one kill is at each crash point in the list below. The others come
// after a random number of requests.
func drawKills(rng *rand.Rand) []kill {
	most := sized(12, 200) // maximum number of commits or leases before a kill
	kills := []kill{
		{point: "commit", times: 1 + rng.IntN(most)},   // a batch is collected, but nothing is written
		{point: "lease", times: 1 + rng.IntN(most)},    // hosts are chosen, but no lease is returned
		{point: "append", times: 1 + rng.IntN(2*most)}, // half of the records are written
		{point: "checkpoint", times: 1 + rng.IntN(2)},  // half of the filter is written
		{point: "rotate", times: 1 + rng.IntN(2)},      // a record file is closed, but this is not committed
		{point: "open", times: 1},                      // files are truncated, but leases are not released
	}
	if *proof {
		for range 2 {
			kills = append(kills,
				kill{point: "committed", times: 1 + rng.IntN(most)}, // the batch is on disk, but no caller has its answer
				kill{point: "recover", times: 1},                    // the leases of the killed process are found
				kill{point: "open", times: 1}, kill{point: "rotate", times: 1},
			)
		}
	}
	for len(kills) < sized(7, 25) {
		kills = append(kills, kill{requests: 1 + rng.IntN(sized(60, 600))})
	}
	rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	// Checkpoints come first, because most URLs are added early. Recoveries come last,
	// because only a run after a kill finds leases to recover.
	slices.SortStableFunc(kills, func(a, b kill) int { return rank(a) - rank(b) })
	return kills
}

// rank returns the number by which drawKills sorts its kills.
func rank(k kill) int {
	switch k.point {
	case "checkpoint":
		return 0
	case "recover":
		return 2
	}
	return 1
}

// TestKilled repeatedly kills a crawl of hardWeb and resumes the crawl with the same command.
// The records must be exactly those of a crawl that was never killed.
func TestKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	web := hardWeb(t, seed)
	seeds := web.Seeds()
	flags := append(hardFlags(web), "--rotate", sized("16KiB", "64KiB"), "--checkpoint-adds", sized("60", "1000"))
	if rng.IntN(2) == 0 {
		flags = append(flags, "--compress")
	}
	c := newCrawl(t, append(flags, seeds...)...)
	w := newWitness(t, web)
	began := time.Now()
	kills := drawKills(rng)
	for _, k := range kills {
		c.runAndKill(web, k)
		w.examine(c.dir, k)
	}
	c.finish()
	figure(t, "duration", "%v", time.Since(began).Round(100*time.Millisecond))
	figure(t, "kills", "%d: %v", len(kills), kills)

	w.finalJudge(c, len(kills))
}

// finalJudge checks a crawl that finished after some kills. Its records must be exactly the
// expected ones, and its counters (the books) must balance. No request was repeated without
// need, and no host was requested too early.
func (w *witness) finalJudge(c *crawl, kills int) {
	w.t.Helper()
	written := records(w.t, c.dir)
	compareExactly(w.t, w.web.Web, written)
	lines := parse(w.t, written)
	checkBooks(w.t, c.stats(), lines, len(w.web.Seeds()), kills+1)
	w.judge(lines)
	judgeManners(w.t, w.web, lines, w.unheard)
}

// runAndKill starts the crawl and waits until k kills it.
func (c *crawl) runAndKill(web *site, k kill) {
	c.t.Helper()
	p := c.start(k.flags()...)
	if k.point == "" {
		web.ringAfter(k.requests, func() { _ = p.cmd.Process.Kill() })
	}
	if e := p.wait(); !e.killed {
		c.t.Fatalf("the run that was to be killed at %v ended with exit code %d; stderr:\n%s", k, e.code, e.stderr)
	}
}

// witness compares the directories of a killed crawl with the requests that the web
// got before and after each kill.
type witness struct {
	t   *testing.T
	web *site

	concurrency int // concurrency of the crawl; 0 means that of hardFlags

	// done has the URLs that were done at some kill. The value is the length of the
	// web's log at the first such kill.
	done map[string]int

	lost     int // number of requests in flight at all kills so far; their outcomes are lost
	mostLost int // maximum number of requests lost at one kill
	unheard  int // number of lost requests for URLs with a Retry-After: see fetchedOnce
}

func newWitness(t *testing.T, web *site) *witness {
	return &witness{t: t, web: web, done: make(map[string]int)}
}

// examine checks a copy of the directory after a kill. The books must balance. The copy
// must have every URL that was requested. Every URL that was done at an earlier kill must
// still be done.
func (w *witness) examine(dir string, k kill) {
	w.t.Helper()
	books := openCopy(w.t, dir, k.String())
	log := w.web.pages()
	lost := w.countLost(log, books, "the kill at "+k.String())
	w.mostLost = max(w.mostLost, lost-w.lost)
	w.lost = lost
	for url := range w.done {
		if !books[url].done {
			w.t.Errorf("after the kill at %v: %s is not done, but was done at an earlier kill", k, url)
		}
	}
	for url, page := range books {
		if _, known := w.done[url]; page.done && !known {
			w.done[url] = len(log)
		}
	}
}

// countLost compares the number of requests for each URL in log with the URL's attempts in
// books. It returns the number of requests that are not counted as attempts. It also sets
// w.unheard.
func (w *witness) countLost(log []pageRequest, books map[string]page, when string) (lost int) {
	requests, waits := make(map[string]int), make(map[string]bool)
	for _, r := range log {
		requests[r.url]++
		waits[r.url] = waits[r.url] || r.RetryAfter > 0
	}
	w.unheard = 0
	for url, n := range requests {
		p, known := books[url]
		if !known {
			w.t.Errorf("after %s: %s was requested, but is neither queued nor done", when, url)
		}
		if n > p.attempts {
			lost += n - p.attempts
			if waits[url] {
				w.unheard += n - p.attempts
			}
		}
	}
	return lost
}

// judge checks that the crawl repeated only requests that were in flight at a kill.
func (w *witness) judge(lines []line) {
	w.t.Helper()
	books := make(map[string]page, len(lines))
	for _, l := range lines {
		books[l.URL] = page{done: true, attempts: l.Attempts}
	}
	log := w.web.pages()
	refetched := w.countLost(log, books, "the end")
	figure(w.t, "refetched", "%d requests, %d were in flight at the kills, at most %d at one", refetched, w.lost, w.mostLost)
	if refetched > w.lost {
		w.t.Errorf("%d requests were repeated, want at most the %d that were in flight at the kills", refetched, w.lost)
	}
	hosts := make(map[string]bool)
	for _, r := range log {
		hosts[r.Host] = true
	}
	// A commit takes less time than the delay of a host, even on a busy machine. So at
	// most one finished request of each host waits for its commit.
	asking := cmp.Or(w.concurrency, concurrency)
	if most := asking + max(asking, len(hosts)); w.mostLost > most {
		w.t.Errorf("%d requests were in flight at one kill, want at most %d: the concurrency %d, plus the larger of this and the %d hosts",
			w.mostLost, most, asking, len(hosts))
	}
	for i, r := range log {
		if by, done := w.done[r.url]; done && i >= by {
			w.t.Errorf("%s was requested again after a kill at which it was already done", r.url)
		}
	}
}
