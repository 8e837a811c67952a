package frontiertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// BulkGenerations is the number of generations of the window in RunBulkWindow.
const BulkGenerations = 3

// bulkKept is how long a finished bulk key is remembered at most.
const bulkKept = Window + Window/BulkGenerations

// RunBulkWindow tests that a finished bulk URL counts as seen for the time Window, and is new again at the latest when
// Window·(1 + 1/BulkGenerations) is over. The crawls that open returns must have the window Window, in BulkGenerations
// generations, for bulk URLs and for the URLs of ClassWindow, and a rate of false positives of 1e-9. They must have no
// window for ClassForever.
func RunBulkWindow(t *testing.T, open func(t *testing.T, opt Options) Crawl) {
	suite.Run(t, bulkWindowCases, driving(open))
}

var bulkWindowCases = []testCase{
	{"BulkWindowBeginsWithTheCompletion", Options{LeaseTTL: 10 * Window}, func(c *driver) {
		item := page("a.test", 1)
		c.add(item)
		c.Clock.Advance(5 * Window)
		c.wantAnswer(frontier.Seen, item) // it waits
		l := c.lease()
		for range 10 {
			c.Clock.Advance(Window / 2)
			c.wantAnswer(frontier.Seen, item) // it is leased
		}
		c.endAfter(l, finished(l.Items[0]))
		for round := uint32(1); round < 5; round++ {
			for range 4 { // these sightings do not extend the time
				c.Clock.Advance(Window / 4)
				c.wantAnswer(frontier.Seen, item)
			}
			c.Clock.Advance(bulkKept - Window)
			c.wantAnswers([]frontier.Answer{frontier.Added, frontier.Seen}, item, item)
			c.wantAnswer(frontier.Seen, item)
			c.finishRound(round, finished)
		}
		c.wantStats(counts{"added": 5, "done": 5})
		c.wantAudit()
	}},
	{"BulkWindowOfADelayedURL", Options{}, func(c *driver) {
		item := page("a.test", 1)
		l := c.addAndLease(item)
		c.endAfter(l, retried(l.Items[0], 6*Window))
		for range 11 {
			c.Clock.Advance(Window / 2)
			c.wantAnswer(frontier.Seen, item)
		}
		c.Clock.Advance(Window / 2)
		l = c.lease()
		c.wantAnswer(frontier.Seen, item)
		c.endAfter(l, finished(l.Items[0]))
		c.Clock.Advance(bulkKept)
		c.wantAnswer(frontier.Added, item)
		c.finishRound(1, finished)
	}},
	{"BulkWindowOfAFailedURL", Options{}, func(c *driver) {
		item := page("a.test", 1)
		c.add(item)
		c.finishRound(0, brokenOff)
		for range 4 {
			c.Clock.Advance(bulkKept)
			c.wantAnswer(frontier.Seen, item) // only Retry queues it again
		}
		c.retryFailed("", 1)
		c.Clock.Advance(bulkKept)
		c.wantAnswer(frontier.Seen, item)
		c.finishRound(1, finished)
		c.Clock.Advance(Window)
		c.wantAnswer(frontier.Seen, item)
		c.Clock.Advance(bulkKept - Window)
		c.wantAnswer(frontier.Added, item)
		c.finishRound(2, brokenOff)
		c.Clock.Advance(bulkKept)
		c.wantAnswer(frontier.Seen, item)
		c.wantStats(counts{"added": 2, "done": 1, "failed": 1})
		c.wantAudit()
	}},
	{"BulkWindowIsNotOfExactURLs", Options{}, func(c *driver) {
		forever, window := classed(ClassForever, page("a.test", 1)), classed(ClassWindow, page("b.test", 1))
		c.add(forever)
		c.finishRound(0, finished)
		c.add(window)
		c.finishRound(0, finished)
		for range 10 {
			c.Clock.Advance(Window / 5)
			c.add(page(hostName(9), int(c.Clock.Now().Unix())))
		}
		c.wantAnswer(frontier.Seen, forever)
		c.wantAnswer(frontier.Seen, page("a.test", 1)) // even if it is found in another way
		c.wantAnswer(frontier.Added, window)
		c.wantAnswer(frontier.Seen, window)
	}},
	{"BulkWindowOfALink", Options{}, func(c *driver) {
		item := page("a.test", 1)
		c.add(item)
		c.finishRound(0, finished)
		c.Clock.Advance(bulkKept)
		l := c.addAndLease(page("b.test", 1))
		done := linking(l.Items[0], item, item)
		var links frontier.LinkCounts
		done.Record = counted(&links)
		c.endAfter(l, done)
		c.wantLinks(links, frontier.LinkCounts{Found: 2, Added: 1, Seen: 1})
		c.finishRound(1, finished)
	}},
	{"BulkWindowEndsOnce", Options{}, func(c *driver) {
		item := page("a.test", 1)
		c.add(item)
		c.finishRound(0, finished)
		c.Clock.Advance(bulkKept)
		added := c.raceToAdd(1, func(int, int) []frontier.Offer { return []frontier.Offer{item, item} })
		c.want("number of offers answered Added", added, 1)
		c.finishRound(1, finished)
		c.idle()
	}},
	{"BulkWindowOutlivesACrash", Options{}, func(c *driver) {
		item, waits, failed := page("a.test", 1), page("b.test", 1), page("c.test", 1)
		c.add(item)
		c.finishRound(0, finished)
		c.add(failed)
		c.finishRound(0, brokenOff)
		c.add(waits)
		for i := range 8 {
			again := Reopener.Crash
			if i%3 == 2 {
				again = Reopener.Reopen
			}
			c.restart(again)
			c.wantAnswers([]frontier.Answer{frontier.Seen, frontier.Seen, frontier.Seen}, item, waits, failed)
			c.Clock.Advance(Window / 8)
		}
		c.restart(Reopener.Crash)
		c.wantAnswer(frontier.Seen, item)
		c.Clock.Advance(bulkKept - Window)
		c.restart(Reopener.Crash)
		c.wantAnswers([]frontier.Answer{frontier.Added, frontier.Seen, frontier.Seen}, item, waits, failed)
		c.restart(Reopener.Crash)
		c.Clock.Advance(20 * Window) // longer than all generations
		c.wantAnswers([]frontier.Answer{frontier.Seen, frontier.Seen, frontier.Seen}, item, waits, failed)
		c.wantAudit()
	}},
	{"BulkWindowOfAnEmptyGeneration", Options{}, func(c *driver) {
		item := page("a.test", 0)
		c.add(item)
		c.finishRound(0, finished)
		for i := range 12 { // a generation is started without a key, and then the process dies
			c.Clock.Advance(2 * bulkKept)
			c.idle()
			c.restart(Reopener.Crash)
			item = page("a.test", i+1)
			c.add(item)
			c.finishRound(0, finished)
			c.Clock.Advance(Window - time.Second)
			c.wantAnswer(frontier.Seen, item)
			c.Clock.Advance(Window / 11)
		}
	}},
	{"BulkWindowsKeepTheBooks", Options{}, func(c *driver) {
		items := pages("a.test", 1, 5)
		items[3].Class = ClassWindow
		c.add(items...)
		for range 3 {
			l := c.lease()
			c.endAfter(l, finished(l.Items[0]), finished(l.Items[1]), finished(l.Items[2]), finished(l.Items[3]))
			c.Clock.Advance(bulkKept)
			c.add(items...)
		}
		c.wantStats(counts{"added": 16, "queued": 4})
		c.wantAudit()
	}},
}

// BulkWindowModel makes random calls at random times to a crawl as RunBulkWindow needs it, and compares the answers with a
// map. It opens a Reopener again now and then, mostly after a crash. Equal seeds make equal calls.
func BulkWindowModel(t *testing.T, open func(t *testing.T, opt Options) Crawl, seed uint64, steps int) {
	t.Helper()
	t.Logf("replay with seed %d", seed)
	run := testCase{fmt.Sprintf("seed=%d", seed), Options{LeaseTTL: 100 * Window}, func(d *driver) {
		m := &bulkWindowModel{driver: d, rng: rand.New(rand.NewPCG(seed, 5)), keys: make(map[string]*bulkKey)}
		for range steps {
			suite.Step(m.rng, []suite.Move{{40, m.offerOne}, {20, m.work}, {20, m.wait}, {2, m.retry}, {2, m.reopen}})
		}
		d.wantAudit()
		d.Require(m.readmitted > steps/100, "only %d URLs were let in again in %d steps", m.readmitted, steps)
	}}
	if err := suite.Try(t, run, driving(open)); err != nil {
		t.Error(err)
	}
}

type bulkWindowModel struct {
	*driver
	rng        *rand.Rand
	keys       map[string]*bulkKey
	readmitted int
}

// bulkKey is what the model knows of a URL.
type bulkKey struct {
	waits, failed bool
	finished      time.Time
	next          uint32 // no item has had this round or a later one
}

func (m *bulkWindowModel) offerOne() {
	offer := page(hostName(m.rng.IntN(6)), m.rng.IntN(12))
	if m.rng.IntN(10) == 0 { // a URL that is offered once
		offer = page(hostName(m.rng.IntN(6)), 100+m.rng.IntN(1e9))
	}
	if len(offer.URL)%5 == 0 {
		offer.Class = ClassWindow
	}
	key, known := m.keys[offer.URL]
	got := m.offer(offer)[0].Answer
	m.Note("offer %s: %v", offer.URL, got)
	if !known {
		m.Require(got == frontier.Added, "a new URL is answered %v", got)
		m.keys[offer.URL] = &bulkKey{waits: true}
		return
	}
	age := m.Clock.Now().Sub(key.finished)
	isExact := offer.Class == ClassWindow
	switch {
	case key.waits || key.failed && !isExact:
		m.Require(got == frontier.Seen, "%s is answered %v, but it waits or has failed", offer.URL, got)
	case age < Window:
		m.Require(got == frontier.Seen, "%s is answered %v, %v after its end", offer.URL, got, age)
	case age >= bulkKept || isExact:
		m.Require(got == frontier.Added, "%s is answered %v, %v after its end", offer.URL, got, age)
	}
	if got == frontier.Added {
		key.waits, key.failed = true, false
		m.readmitted++
	}
}

// work leases items, and ends some of them.
func (m *bulkWindowModel) work() {
	grant := m.grant(frontier.LeaseRequest{IDs: m.ids(1 + m.rng.IntN(3)), InFlight: 1})
	for _, l := range grant.Leases {
		var done []frontier.Completion
		for _, item := range l.Items {
			key := m.keys[item.URL]
			c := finished(item)
			switch m.rng.IntN(8) {
			case 0:
				c = brokenOff(item)
			case 1:
				c = retried(item, time.Duration(m.rng.Int64N(int64(2*Window))))
			case 2:
				c = givenBack(item)
			}
			done = append(done, c)
			if c.Disposition != frontier.Finish {
				continue
			}
			m.Note("end %s in round %d: %s", item.URL, item.Round, c.Outcome)
			m.Require(item.Round >= key.next, "%s ends in round %d, but an item of round %d or more has ended", item.URL, item.Round, key.next)
			key.next, key.waits, key.finished = item.Round+1, false, m.Clock.Now()
			key.failed = c.Outcome == frontier.Network
		}
		m.complete(l.ID, frontier.HostUpdate{End: true}, done...)
	}
}

func (m *bulkWindowModel) wait() {
	d := time.Duration(m.rng.Int64N(int64(Window / 10)))
	switch m.rng.IntN(40) {
	case 0:
		d *= 10
	case 1:
		d *= 60
	}
	m.Note("wait %v", d)
	m.Clock.Advance(d)
}

func (m *bulkWindowModel) retry() {
	n, err := m.Retry(m.Ctx, frontier.Failures{})
	m.Must(err, "Retry")
	m.Note("retry: %d", n)
	for _, key := range m.keys {
		if key.failed {
			key.failed, key.waits = false, true
		}
	}
}

func (m *bulkWindowModel) reopen() {
	again := Reopener.Crash
	if m.rng.IntN(4) == 0 {
		again = Reopener.Reopen
	}
	m.Note("reopen")
	m.restart(again)
}
