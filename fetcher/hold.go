package fetcher

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/preference"
	"github.com/bloomfrontier/crawler/fetcher/internal/series"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// holding is a lease that is being worked on. One goroutine, run, decides what happens
// next. Each visit, that is, the request for one item and the work on its answer, has its
// own goroutine. If the next item must wait for leastRest or longer until its host is due, run
// returns, and a timer calls run again. So no goroutine waits during that time.
type holding struct {
	*Crawl
	lease  frontier.Lease
	since  time.Time     // when the lease was requested
	asks   *gate         // requests under way, up to the host's concurrency
	listed chan struct{} // sitemaps being visited, one at most
	room   *gate         // visits not completed; at most the result of visitRoom

	// only the method run uses these fields, until closing is true
	received   int
	pending    []frontier.Item        // still to do, in this order
	unread     []frontier.Item        // of them, those that recall has not seen yet
	deferred   []frontier.Item        // waiting for a robots.txt that could not be fetched
	cleared    bloomstore.Fingerprint // of the last item that a robots.txt allowed; its rules may be gone (see ruleBook)
	lines      preference.Lines       // of robots.txt
	wishes     wishes                 // about the use of the first pending item, if its robots.txt was asked
	tdmCleared bloomstore.Fingerprint // of the last item whose tdmrep.json was asked; wishes.file is its rule
	askAgain   bool                   // request the failed robots.txt again, because nothing else is left to do
	ofSeed     map[string]bool        // by origin: whether it is the origin of a seed; nil means not asked yet
	full       bool                   // the store had as many items as were requested
	kept       context.Context        // the lease is extended until this context is cancelled
	release    context.CancelFunc     // cancels kept
	keeping    sync.WaitGroup         // the goroutines and timers of keepLease
	coming     chan topUp             // the result of a prefetch under way, or nil

	takingSlot sync.Mutex // held during takeSlot; taken before mu

	mu          sync.Mutex
	deadline    time.Time
	rules       *hostRules // under the policy that the lease obeys; see obey
	host        *politeness.Host
	notBefore   time.Time                         // no request starts earlier; see roster.join and waitForSlot
	written     time.Time                         // when the last request was written, or will be written
	origins     map[string]*robots.State          // by origin
	tdm         map[string]*tdmState              // by origin
	known       series.Host                       // the series of the host
	same        sameText                          // of its pages
	cause       string                            // why the host does not answer requests for pages; empty means that it does
	lastError   *LastError                        // the last failure of an item, without its host; nil means none
	recalled    map[bloomstore.Fingerprint]*Known // what is known of the items, until they are completed
	waits       bool                              // some items of the lease wait for another attempt
	changed     bool                              // the blob changed since it was last sent
	asking      int                               // requests that need the host's slot (see takeSlot)
	slot        *gate                             // the gate of the host's slot; nil while the host has none
	parked      bool                              // waits for the host's delay, or has ended
	stalled     int                               // completions that wait while the store is unavailable
	walled      []walledVisit                     // of URLs that walls have refused; see keepWalled
	exhausted   bool                              // see moreBehindWall
	held        int                               // items that were put off because they are paused
	counted     bool                              // is counted in Crawl.ready; see countReady
	outstanding int                               // visits not completed
	closing     bool                              // run starts no more visits
	ended       bool                              // the lease was given up
	lost        bool                              // another worker has the lease
	failure     error                             // of the store or the archive
	visits      sync.WaitGroup
}

// newHolding prepares a lease for work. requestedAt is when the lease was requested. The deadline
// of the lease counts from that time.
func (c *Crawl) newHolding(l frontier.Lease, requestedAt time.Time) *holding {
	rules := c.rulesOf(l.Host)
	h := &holding{
		Crawl: c, lease: l, rules: rules, since: requestedAt, deadline: requestedAt.Add(l.TTL),
		asks: newGate(rules.host.Concurrency), listed: make(chan struct{}, 1), room: newGate(visitRoom(rules.host.Concurrency)),
		received: len(l.Items), pending: l.Items, unread: l.Items, recalled: make(map[bloomstore.Fingerprint]*Known), full: len(l.Items) >= fullBatch,
		host: politeness.New(rules.host.Politeness), origins: make(map[string]*robots.State), tdm: make(map[string]*tdmState),
	}
	if err := h.readBlob(l.Blob, time.Now()); err != nil {
		c.cfg.Logger.Warn("host state unreadable", slog.String("host", l.Host), slog.Any("err", err))
	}
	h.noteRules("")
	c.roster.join(h)
	h.kept, h.release = context.WithCancel(c.hard)
	h.keepLease(l.TTL/2, backoff{})
	return h
}

// hostRules are the settings of a host under one policy. They do not change.
type hostRules struct {
	policy *policy.Policy
	host   policy.Host
	token  string // the name that robots.txt uses for the user agent of the host's requests
}

// rulesOf returns the settings of a host key under the present policy.
func (c *Crawl) rulesOf(key string) *hostRules {
	p := c.cfg.Policy()
	host := p.Host(key)
	return &hostRules{p, host, ProductToken(host.Header, c.cfg.Client.UserAgent())}
}

// present returns the settings of the host under the present policy.
func (h *holding) present() *hostRules {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.obey()
}

// obey is present for a caller that holds mu. If the policy is a new one, the delay, the back-offs
// and the number of requests at once follow it from now on.
func (h *holding) obey() *hostRules {
	if h.rules.policy == h.cfg.Policy() {
		return h.rules
	}
	h.rules = h.rulesOf(h.lease.Host)
	h.host.SetPolicy(h.rules.host.Politeness)
	h.asks.resize(h.rules.host.Concurrency)
	h.room.resize(visitRoom(h.rules.host.Concurrency))
	return h.rules
}

// ProductToken returns the name under which robots.txt has rules for requests with the given header
// (see policy.Host) and user agent. A User-Agent in the header replaces the argument userAgent, which
// is that of the client.
func ProductToken(header map[string][]string, userAgent string) string {
	for name, values := range header {
		if len(values) > 0 && http.CanonicalHeaderKey(name) == "User-Agent" {
			userAgent = values[0]
		}
	}
	return robots.ProductToken(userAgent)
}

// visitRoom returns how many visits of one host may be incomplete at once. There may be
// more visits than requests, so that the next request starts while a page waits for the disk.
func visitRoom(hostConcurrency int) int { return 8*hostConcurrency + 12 }

// fullBatch is the size from which a first batch counts as full. A host whose first batch is
// full may have more items.
const fullBatch = 32

// maxDeferred bounds the items of a lease that wait for a robots.txt.
const maxDeferred = 256

// run works on the lease. If the result rest is 0, the lease is done. Otherwise the host
// must get no request during the time rest. After this time, or when the context stop
// ends, run must be called again. An error comes from the store or the archive, and
// ends the crawl.
func (h *holding) run(stop context.Context) (rest time.Duration, err error) {
	for more := true; more; more = err == nil && h.moreBehindWall() {
		for err == nil && h.next(stop) {
			if rest, err = h.step(stop); rest > 0 {
				return rest, nil
			}
		}
		h.takePrefetched(true) // from here on the only calls to the store are completions
		h.mu.Lock()
		h.closing = true
		h.mu.Unlock()
		h.visits.Wait()
	}
	h.settleWalled()
	h.endLease()
	h.release()
	h.ruleBook.set(h, 0)
	h.roster.leave(h)
	h.keeping.Wait()
	return 0, h.failure
}

// errStop ends the loop of run. Pending items go back with the lease.
var errStop = errors.New("fetcher: nothing more under this lease")

// errDead reports that the host stopped answering while an item waited for its
// turn.
var errDead = errors.New("fetcher: the host answers no more")

// next makes sure that there is a pending item, or returns false.
func (h *holding) next(stop context.Context) bool {
	if stop.Err() != nil || h.isOver() || h.held > maxHeld || h.cfg.Policy().HostPaused(h.lease.Host) {
		return false
	}
	young := time.Since(h.since) < h.lease.TTL || h.dead()
	short := len(h.pending) < 4*h.present().host.Concurrency
	if short && h.full && young && len(h.deferred) < maxDeferred {
		h.prefetch(stop)
	}
	h.takePrefetched(len(h.pending) == 0)
	if err := h.recall(stop); err != nil {
		if stop.Err() == nil {
			_ = h.storeFailed(err)
		}
		return false
	}
	if len(h.pending) == 0 {
		h.undefer()
	}
	h.preferUntried()
	return len(h.pending) > 0 && !h.isOver()
}

// preferUntried sorts the pending items by their attempts while the host fails. Otherwise a few
// URLs that are never answered, each tried several times, would be taken for a dead host.
func (h *holding) preferUntried() {
	h.mu.Lock()
	failing := h.host.Failures() > 0
	h.mu.Unlock()
	if failing && len(h.pending) > 1 {
		slices.SortStableFunc(h.pending, func(a, b frontier.Item) int { return cmp.Compare(a.Attempts, b.Attempts) })
	}
}

// isOver reports whether the lease was lost, or the store or the archive failed. After that, no
// visit may start.
func (h *holding) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost || h.failure != nil
}

func (h *holding) dead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host.Dead()
}

// leastRest is the shortest wait for which run returns. A shorter wait within run is cheaper
// than another call of run.
const leastRest = 20 * time.Millisecond

// step does the next step for the first pending item, or returns how long the host must
// get no request.
func (h *holding) step(stop context.Context) (rest time.Duration, err error) {
	item := h.pending[0]
	if h.dead() {
		why := "the host answers no more"
		if cause := h.lastCause(); cause != "" {
			why += ": " + cause
		}
		return 0, h.concludeAll(frontier.HostDead, causeHostDead, why)
	}
	if h.probes() {
		return 0, errStop
	}
	if item.Deliveries >= frontier.MaxDeliveries {
		return 0, h.conclude(1, frontier.WorkerLost, causeWorker, "its workers died over it")
	}
	if why := h.dropped(&item); why != "" {
		return 0, h.conclude(1, frontier.Dropped, "", why)
	}
	if h.holdPaused() {
		return 0, nil
	}
	if held, err := h.holdFirsts(stop); held || err != nil {
		return 0, err
	}
	if n, why := h.trapped(); n > 0 {
		return 0, h.conclude(n, frontier.Dropped, causeTrap, why)
	}
	if frontier.IsCheck(item.URL) {
		return h.stepCheck(stop, item)
	}
	url, err := h.cfg.Canon.Parse(item.URL)
	if err != nil {
		return 0, h.conclude(1, frontier.Network, get.CauseOther, err.Error())
	}
	unruled := false // the origin's robots.txt must be requested first
	if h.present().host.IgnoreRobots {
		h.wishes.robots = nil
	} else {
		switch access, rule := h.access(url.Origin(), url.Path()); access {
		case robots.Ask:
			unruled = item.Fingerprint != h.cleared
		case robots.Wait:
			return 0, h.robotsOut(url.Origin())
		case robots.Disallow:
			return 0, h.conclude(1, frontier.Robots, "", "robots.txt: "+rule)
		default:
			h.cleared = item.Fingerprint
			h.noteLines(url)
		}
	}
	needsTDM := !unruled && h.needsTDM(&item, url)
	if !unruled && !needsTDM && h.concludeUse() {
		return 0, nil
	}
	if rest, err := h.turn(maxPark)(false); err != nil || rest >= leastRest {
		return rest, notDead(err)
	}
	switch {
	case unruled:
		return 0, notDead(h.askRobots(stop, url))
	case needsTDM:
		return 0, notDead(h.askTDM(stop, &item, url))
	}
	return 0, notDead(h.startVisit(stop, item, url))
}

// maxHeld bounds the paused items of one lease, because the store keeps them with the lease until it ends.
const maxHeld = 256

// holdPaused puts off the pending items that the policy pauses, if the first one is among them.
func (h *holding) holdPaused() bool {
	p := h.cfg.Policy()
	paused := func(item frontier.Item) bool { return p.Paused(h.lease.Host, item.URL) }
	if len(p.Pause) == 0 || !paused(h.pending[0]) {
		return false
	}
	h.hold(paused)
	return true
}

// hold puts off the pending items that a function selects.
func (h *holding) hold(selects func(frontier.Item) bool) {
	var done []frontier.Completion
	h.pending = slices.DeleteFunc(slices.Clone(h.pending), func(item frontier.Item) bool {
		is := selects(item)
		if is {
			done = append(done, frontier.Completion{Item: item.Fingerprint, Disposition: frontier.Hold})
		}
		return is
	})
	h.held += len(done)
	h.complete(done, false)
}

// startVisit starts the request for the first pending item when its turn comes.
func (h *holding) startVisit(stop context.Context, item frontier.Item, url canon.URL) error {
	private, err := h.private(url)
	if err != nil {
		return err
	}
	doneReading, err := h.takeListing(stop, item.Class)
	if err != nil {
		return err
	}
	freePage, err := h.takePage(stop, &item)
	if err != nil {
		doneReading()
		return err
	}
	end, err := h.begin(stop, h.turn(maxPark))
	if err != nil {
		freePage()
		doneReading()
		return err
	}
	h.pending = h.pending[1:]
	h.mu.Lock()
	h.outstanding++
	delay := h.host.Delay()
	h.mu.Unlock()
	began, wishes := make(chan struct{}), h.wishes
	h.visits.Go(func() {
		defer doneReading()
		defer freePage()
		h.visit(item, url, private, wishes, delay, began, end)
	})
	if delay > 0 {
		<-began // because the delay until the next start counts from this start
	}
	return nil
}

// notDead returns nil for errDead, and any other err unchanged. After errDead, run therefore
// continues, and the next step finishes the items of the dead host.
func notDead(err error) error {
	if errors.Is(err, errDead) {
		return nil
	}
	return err
}

// conclude finishes the first n pending items without a request.
func (h *holding) conclude(n int, outcome frontier.Outcome, cause, why string) error {
	done := make([]frontier.Completion, 0, n)
	for _, item := range h.pending[:n] {
		done = append(done, h.conclusion(item, outcome, cause, why))
	}
	h.pending = h.pending[n:]
	h.complete(done, false)
	return nil
}

// concludeAll finishes every item of the lease without a request.
func (h *holding) concludeAll(outcome frontier.Outcome, cause, why string) error {
	h.full = true // to request the rest of the host's queue too
	h.pending = append(h.pending, h.deferred...)
	h.deferred = nil
	return h.conclude(len(h.pending), outcome, cause, why)
}
