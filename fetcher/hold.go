package fetcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// holding is a lease being worked on. One goroutine, run, decides what happens
// next, and each visit has its own. While the host must be left alone there is
// none: a timer starts run again.
type holding struct {
	*Crawl
	lease  frontier.Lease
	rules  HostRules
	token  string // what robots.txt calls the user agent of this host's requests
	policy politeness.Policy
	since  time.Time     // when the lease was asked for
	asks   chan struct{} // requests under way, up to the host's concurrency
	listed chan struct{} // visits of sitemaps not completed, one at a time
	room   chan struct{} // visits not completed, up to visitRoom of it

	// run's alone, until closing
	received int
	pending  []frontier.Item    // to be worked on, in this order
	shelved  []frontier.Item    // they wait for a robots.txt that could not be had
	askAgain bool               // it is asked for again, for there is nothing else to do
	ofSeed   map[string]bool    // by origin: whether it is that of a seed; nil: not asked yet
	full     bool               // the store had as many items as were asked for
	kept     context.Context    // the lease is extended until it ends
	release  context.CancelFunc // ends kept
	keeping  sync.WaitGroup     // what keep started
	coming   chan topUp         // what a prefetch under way will bring; nil: none is

	mu          sync.Mutex
	deadline    time.Time
	host        *politeness.Host
	notBefore   time.Time                // of the next start, for the sake of starts under no lease
	origins     map[string]*robots.State // by origin
	cause       string                   // why the host does not answer requests for pages; empty: it does
	waits       bool                     // items that were taken on wait to be tried again
	changed     bool                     // what the blob keeps, since it was last sent
	asking      int                      // requests under way; the slot is held while there are any
	slot        *gate                    // the one of slots that is held; nil: none
	outstanding int                      // visits not completed
	closing     bool                     // run starts no more visits
	ended       bool                     // the lease was given up
	lost        bool                     // the lease is somebody else's
	failure     error                    // of the store
	visits      sync.WaitGroup
}

// hold makes a lease ready to be worked on; asked is the moment before it was
// requested, which is what its deadline counts from.
func (c *Crawl) hold(l frontier.Lease, asked time.Time) *holding {
	rules, policy := c.rulesOf(l.Host)
	h := &holding{
		Crawl: c, lease: l, rules: rules, token: c.tokenOf(rules), policy: policy, since: asked, deadline: asked.Add(l.TTL),
		asks: make(chan struct{}, rules.HostConcurrency), listed: make(chan struct{}, 1), room: make(chan struct{}, visitRoom(rules.HostConcurrency)),
		received: len(l.Items), pending: l.Items, full: len(l.Items) >= fullBatch,
		host: politeness.New(policy), origins: make(map[string]*robots.State),
	}
	if err := h.readBlob(l.Blob, time.Now()); err != nil {
		c.cfg.Logger.Warn("host state unreadable", slog.String("host", l.Host), slog.Any("err", err))
	}
	c.roster.join(h)
	h.kept, h.release = context.WithCancel(c.hard)
	h.keep(l.TTL/2, backoff{})
	return h
}

// rulesOf returns what holds for a host key, with nothing left to default.
func (c *Crawl) rulesOf(host string) (HostRules, politeness.Policy) {
	rules, policy := c.cfg.Hosts(host), c.cfg.Politeness
	if rules.Politeness != nil {
		policy, _ = rules.Politeness.WithDefaults()
	}
	if rules.HostConcurrency == 0 {
		rules.HostConcurrency = c.cfg.HostConcurrency
	}
	return rules, policy
}

// tokenOf returns what robots.txt calls the user agent that requests under rules have.
func (c *Crawl) tokenOf(rules HostRules) string {
	for name, values := range rules.Header {
		if len(values) > 0 && http.CanonicalHeaderKey(name) == "User-Agent" {
			return robots.ProductToken(values[0])
		}
	}
	return c.token
}

// visitRoom is how many visits of one host may be unfinished at once: more than
// its requests, so that a host is asked on while a page waits for the disk.
func visitRoom(hostConcurrency int) int { return 8*hostConcurrency + 12 }

// fullBatch is the size of a first batch behind which there may be more.
const fullBatch = 32

// maxShelved bounds the items that a lease holds for want of a robots.txt.
const maxShelved = 256

// run works the lease off, until that is done or its host must be left alone for
// rest: then it is to be called again, after that time or when stop ends. It
// returns an error of the store that ends the crawl.
func (h *holding) run(stop context.Context) (rest time.Duration, err error) {
	for h.next(stop) {
		rest, err := h.step(stop)
		if rest > 0 {
			return rest, nil
		}
		if err != nil {
			break
		}
	}
	h.take(true) // so that nothing is under way to the store but completions
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.visits.Wait()
	h.finish()
	h.release()
	h.roster.leave(h)
	h.keeping.Wait()
	return 0, h.failure
}

// errStop ends run's loop; what is pending goes back with the lease.
var errStop = errors.New("fetcher: nothing more under this lease")

// errDead says that the host died while an item waited for its turn.
var errDead = errors.New("fetcher: the host answers no more")

// next sees to it that there is an item to work on.
func (h *holding) next(stop context.Context) bool {
	if stop.Err() != nil || h.over() {
		return false
	}
	young := time.Since(h.since) < h.lease.TTL || h.dead()
	short := len(h.pending) < 4*h.rules.HostConcurrency
	if short && h.full && young && len(h.shelved) < maxShelved {
		h.prefetch(stop)
	}
	h.take(len(h.pending) == 0)
	if len(h.pending) == 0 {
		h.unshelve()
	}
	return len(h.pending) > 0 && !h.over()
}

// over reports whether nothing may be started any more.
func (h *holding) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost || h.failure != nil
}

func (h *holding) dead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host.Dead()
}

// leastRest is the shortest wait for the host that ends run: a shorter one costs
// less than starting it again.
const leastRest = 20 * time.Millisecond

// step does the next thing for the first pending item, or returns how long the
// host must be left alone before that.
func (h *holding) step(stop context.Context) (rest time.Duration, err error) {
	item := h.pending[0]
	if h.dead() {
		why := "the host answers no more"
		if cause := h.lastCause(); cause != "" {
			why += ": " + cause
		}
		return 0, h.concludeAll(frontier.HostDead, why)
	}
	if item.Deliveries >= frontier.MaxDeliveries {
		return 0, h.conclude(1, frontier.WorkerLost, "its workers died over it")
	}
	url, err := h.cfg.Canon.Parse(item.URL)
	if err != nil {
		return 0, h.conclude(1, frontier.Network, err.Error())
	}
	unruled := false // the origin's robots.txt has to be asked for
	if !h.rules.IgnoreRobots {
		switch access, rule := h.access(url.Origin(), url.Path()); access {
		case robots.Ask:
			unruled = true
		case robots.Wait:
			return 0, h.robotsOut(url.Origin())
		case robots.Disallow:
			return 0, h.conclude(1, frontier.Robots, "robots.txt: "+rule)
		}
	}
	if rest, err := h.turn(maxPark)(false); err != nil || rest >= leastRest {
		return rest, notDead(err)
	}
	if unruled {
		return 0, notDead(h.askRobots(stop, url))
	}
	return 0, notDead(h.startVisit(stop, item, url))
}

// startVisit starts the request for the first pending item, in its turn.
func (h *holding) startVisit(stop context.Context, item frontier.Item, url canon.URL) error {
	private, err := h.private(url)
	if err != nil {
		return err
	}
	doneReading, err := h.takeListing(stop, item.Class)
	if err != nil {
		return err
	}
	end, err := h.begin(stop, h.turn(maxPark))
	if err != nil {
		doneReading()
		return err
	}
	h.pending = h.pending[1:]
	h.mu.Lock()
	h.outstanding++
	spaced := h.host.Delay() > 0
	h.mu.Unlock()
	began := make(chan struct{})
	h.visits.Go(func() {
		defer doneReading()
		h.visit(item, url, private, began, end)
	})
	if spaced {
		<-began // the next start counts from this one, not from when it was decided
	}
	return nil
}

// notDead makes run go on when the host died: step then concludes its items.
func notDead(err error) error {
	if errors.Is(err, errDead) {
		return nil
	}
	return err
}

// conclude finishes the first n pending items without a request.
func (h *holding) conclude(n int, outcome frontier.Outcome, why string) error {
	done := make([]frontier.Completion, 0, n)
	for _, item := range h.pending[:n] {
		done = append(done, h.conclusion(item, outcome, why))
	}
	h.pending = h.pending[n:]
	h.complete(done, false)
	return nil
}

// concludeAll finishes every item of the lease without a request.
func (h *holding) concludeAll(outcome frontier.Outcome, why string) error {
	h.full = true // ask for the rest of the queue too
	h.pending = append(h.pending, h.shelved...)
	h.shelved = nil
	return h.conclude(len(h.pending), outcome, why)
}
