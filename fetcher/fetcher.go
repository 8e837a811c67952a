// Package fetcher is the worker of a crawl: it leases hosts from a frontier, requests
// their pages politely, extracts links and data, and reports the outcome of each URL.
//
// It owns the order of the steps (lease, robots.txt, request, outlinks, record,
// completion), the number of requests under way, and what an answer means for its URL.
// Other packages own the queue (frontier), the due times of hosts (politeness),
// connections (get), the form of a URL (canon), the choice of links (follow) and the
// files (record).
//
// A gate is a place at which a request waits, or at which its URL is finished without a
// request. A page passes 17 gates, in this order; docs/design/worker.md explains them, and
// says which gates other requests pass:
//
//	 1  acquire         fetcher/fetcher.go    room for another host
//	 2  Lease           frontier/frontier.go  a host that is due
//	 3  step            fetcher/hold.go       the host answers and is not blocked; no URL that kills workers
//	 4  access          fetcher/robots.go     robots.txt and wishes; unknown ones are requested
//	 5  turn            fetcher/turn.go       the host's delay, also since other crawls, and back-off; a lease that lasts
//	 6  takeListing     fetcher/sitemaps.go   one sitemap of the host at a time
//	 7  takePage        fetcher/pages.go      pages left, beside those that visits under way may become
//	 8  begin           fetcher/turn.go       visits of the host that are not completed
//	 9  begin           fetcher/turn.go       requests to the host under way
//	10  takeSlot        fetcher/slot.go       a slot, or a late slot, for the host
//	11  await           fetcher/pause.go      no pause, no backlog of store or memory, pages left
//	12  pay             fetcher/turn.go       a share of the worker's rate
//	13  awaitBandwidth  fetcher/bandwidth.go  a share of the worker's bandwidth
//	14  CheckPort       fetcher/get/port.go   a port that belongs to the web
//	15  permitted       fetcher/get/dial.go   the name's addresses, and the address guard
//	16  reserve         fetcher/turn.go       the delay since the previous request was written
//	17  permit          fetcher/turn.go       at the write: no stop, no lost lease, no back-off
//
// Behind gates 11 and 13, gate 5 is asked again. The last time counts as the start.
package fetcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Config configures a worker. Store, Client and Policy are required.
type Config struct {
	Store frontier.Store
	// Scope is optional if the scope of the policy's rules is canon.ScopeAny, SeedOrigins and the policy's
	// SeedsUnlimited are false and Client has no private headers. Otherwise it is required.
	Scope  frontier.Scope
	Quota  frontier.Quota // required for a policy with MaxExternal or Rules.MaxHosts
	Client *get.Client    // robots.txt rules are looked up for its user agent
	// SeedOrigins stores the origins of seeds even if Client has no private headers
	// (get.PrivateHeader). A later run needs them if its Client has private headers.
	SeedOrigins bool
	Canon       *canon.Canonicalizer // nil means the default form
	Sink        record.Sink          // nil means no records; it must be the frontier.Output of the store

	Worker string // names this worker in status output; empty means "crawler"
	// Policy returns the present policy, which is valid. The worker calls it at each decision: when it
	// leases hosts, at the gates of a request, when it judges the links of a page, and when it
	// completes a URL. A new policy therefore applies to the next request. It does not apply to URLs
	// that are queued already, nor shorten a wait that has begun. Policy must be quick; see policy.Live.
	Policy func() *policy.Policy
	// Unconfirmed returns nil if requests may start, because Policy is known to be the newest policy of the crawl, or was
	// a short time ago. Otherwise it returns a channel that is closed when they may start. It is called before each
	// request, and must be quick. nil means that requests may always start.
	Unconfirmed func() <-chan struct{}
	// Pass keeps the delays of hosts that other workers of this process request, too. Each worker has a Pass of its own,
	// from one Gate. nil means that there is no other worker.
	Pass *politeness.Pass
	// Exact choose the exact URLs, which are never dropped by a false positive of the filter.
	// nil means the seeds.
	Exact *ExactRules

	// Concurrency is how many hosts are asked at once. A host is asked while a request to
	// it is under way. In addition, up to four times as many late hosts are asked: hosts
	// whose request has taken longer than 2 s. 0 means that the worker finds the number
	// itself. It starts with 64 hosts, and asks more as long as this increases the requests
	// per second.
	Concurrency int
	// MaxConnections is how many requests may be under way at once, including those to
	// late hosts. Each request needs about one connection. 0 means that only Concurrency limits them.
	MaxConnections int
	Rate           float64 // requests per second of this worker; 0 means no limit
	// Bandwidth is the maximum number of bytes per second that the requests of this
	// worker receive, on average over some seconds. It includes headers and TLS. No
	// request starts while the average is higher. 0 means no limit.
	Bandwidth int64
	// Scarce returns a resource that the process is short of, or "". While a resource is
	// short, the worker does not increase the number of hosts that it asks at once. If
	// memory is short, the worker reduces this number. Scarce is called twice a second. It
	// is optional.
	Scarce func() Resource
	Grace  time.Duration // time for requests under way when Run is stopped; 0 means none

	// Memory limits the bytes of what the worker makes of answers and holds at once: bodies,
	// documents, links, data, and results that wait for the store.
	// It is at least LeastMemory; 0 means no limit.
	Memory int64

	// Archive stores answers; nil means none. It must belong to the frontier.Output of the
	// store, and Client must have Capture set.
	Archive Archive

	// Edges stores the links of each page with their texts; nil means none. It must belong
	// to the frontier.Output of the store, and be synced before Sink.
	Edges record.EdgeSink

	// Fields are extracted from HTML pages into Record.Fields. Text also extracts their
	// main text into Record.Text. Both happen before OnPage is called, and both need the
	// document of the page.
	Fields *fields.Rules // nil means none
	Text   bool

	// OnPage is called for each page that was received (status 2xx of a wanted type),
	// before the page is completed. Many goroutines call it at once. After an error the
	// page is queued again, and an attempt is used up. It waits for politeness.Policy.BackoffIn. If
	// no attempt is left, the page has failed with the outcome "handler".
	//
	// The context ends when requests are aborted, at the latest Grace after a stop. If OnPage
	// still runs 1 s later, Run does not wait for it: the page goes back to the store, and Run
	// may return before OnPage does. The Page then stays valid, but the crawl ignores it.
	//
	// OnPage can run more than once for a page: after an error, after a crash, if a lease runs
	// out while OnPage runs, and if OnPage ignored the end of its context. Page.EventID is the same each time, so that
	// package events/inbox can run its effects once.
	OnPage func(ctx context.Context, page *Page) error

	// OnAnswer is called with the final result of each URL that was requested and is not passed to
	// OnPage: a redirect, an error, a type that is not wanted, a sitemap, no answer. It is called before
	// the result is stored. An attempt after which the URL is tried again has no final result. All that is said of OnPage is
	// true of OnAnswer, too. It is not called for URLs that end without a request, and for checks of
	// links that lead out. It is optional.
	OnAnswer func(ctx context.Context, answer *Answer) error

	// OnRefused is called for each link that was refused, after its page was completed.
	// Many goroutines call it at once. It is optional. If a page is fetched again after a
	// crash, OnRefused is called again for its links. If a page has more references than
	// the maximum, those beyond it are only counted, and OnRefused is not called for them.
	OnRefused func(Refused)

	// Visits knows the earlier visits of pages. It is optional: without it, nothing is known.
	Visits Visits

	// OnlyBlocked reports whether URLs are queued, none is leased, and each queued one belongs to a blocked
	// host (BlockOf). Then Run ends with Blocked. Run calls it now and then while no host is due and no lease
	// is held. It is optional: without it, Run waits until the hosts may be asked again.
	OnlyBlocked func(ctx context.Context) (bool, error)

	Logger *slog.Logger // nil discards all messages
}

// ExactRules say which URLs are exact.
type ExactRules = exact.Rules

// ParseExact parses rules for exact URLs. A rule is seeds, sitemaps, depth<=N, host=GLOB, re=EXPR or
// all, and can have a name: "name: rule". "none" alone means that no URL is exact.
func ParseExact(texts ...string) (*ExactRules, error) { return exact.ParseTexts(texts) }

// check completes c, and returns an error that names every fault.
func (c Config) check() (Config, error) {
	var errs []error
	missing := func(is bool, name string) {
		if is {
			errs = append(errs, fmt.Errorf("fetcher: %s is nil", name))
		}
	}
	missing(c.Store == nil, "Store")
	missing(c.Client == nil, "Client")
	missing(c.Policy == nil, "Policy")
	missing(c.Sink == nil && (c.Archive != nil || c.Edges != nil), "Sink")
	if c.Policy != nil {
		p := c.Policy()
		errs = append(errs, p.Validate())
		missing(c.Quota == nil && (p.Rules.BoundsHosts() || p.CheckExternal && p.MaxExternal > 0), "Quota")
		private := c.SeedOrigins || p.SeedsUnlimited || c.Client != nil && c.sendsPrivate()
		missing(c.Scope == nil && (private || p.Rules.Scope != canon.ScopeAny), "Scope")
	}
	if c.Client != nil {
		errs = append(errs, c.checkMemory())
	}
	for _, field := range []struct {
		name  string
		value float64
	}{
		{"Concurrency", float64(c.Concurrency)}, {"MaxConnections", float64(c.MaxConnections)},
		{"Bandwidth", float64(c.Bandwidth)}, {"Rate", c.Rate},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("fetcher: %s is %v, want 0 or more", field.name, field.value))
		}
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("fetcher: Grace is %v, want 0 or more", c.Grace))
	}
	var err error
	if c.Canon == nil {
		c.Canon, err = canon.New(canon.Options{})
		errs = append(errs, err)
	}
	if c.Exact == nil {
		c.Exact, err = ParseExact("seeds")
		errs = append(errs, err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Worker = cmp.Or(c.Worker, "crawler")
	return c, errors.Join(errs...)
}

// Crawl is one worker of a crawl.
type Crawl struct {
	cfg       Config
	memory    *budget.Budget // of bodies and documents
	limiter   *rate.Limiter  // nil means no limit
	bandwidth *bandwidth     // nil means no limit
	roster    roster
	barrier   barrier
	pages     pages
	backlog   backlog
	ruleBook  ruleBook

	slots   slots         // a host holds a slot or a late slot while requests to it are under way
	readers chan struct{} // one entry for each body that is being parsed; Config.Memory does not count the memory of the parser
	// documentTime is how long the turns of one page may take together, see effort.
	documentTime time.Duration
	dearTime     time.Duration    // a host rests after a page that took so long
	onStep       func(url string) // called in giveUp; a test makes the work on a page slow with it

	wake  chan struct{} // something may be due earlier than expected
	feeds atomic.Int64  // calls of Hold that were not released yet
	held  atomic.Int64  // leases that this worker has
	ready atomic.Int64  // leases without a late slot that do not wait for their host's delay

	askBlocked time.Time // when Config.OnlyBlocked may be called; used by acquire only

	squeezed atomic.Bool // memory is short: no more hosts are leased

	stopping context.Context // ends when no more requests may start; set by Run

	hard  context.Context // cancelled to stop requests under way
	abort context.CancelCauseFunc
	last  context.Context // cancelled completeTime after hard, to stop completions; set by Run
	tally tally
	ran   atomic.Bool // Run was called

	storeAway, storeFull, machineDown outage
	backlogFull                       outage                 // the backlog has been full while the store was away
	awaitingStore                     atomic.Int64           // calls that wait until the store is available
	awaitingMachine                   atomic.Int64           // hosts in awaitMachine
	machineCause                      atomic.Pointer[string] // why the last host that entered awaitMachine waits
}

// The values of End.
const (
	Empty   End = "empty"   // nothing is left to fetch
	Limit   End = "limit"   // Policy.MaxPages was reached
	Stopped End = "stopped" // the context ended
	Blocked End = "blocked" // only blocked hosts have work: see Config.OnlyBlocked
)

// End is why a Run ended without an error.
type End string

// completeTime is how long the store may take to complete items after the requests under way
// were stopped.
const completeTime = 2 * time.Second

// ErrGraceOver is the cause with which requests end when Config.Grace is over.
var ErrGraceOver = errors.New("fetcher: grace is over")

// New returns a worker. The error names every fault of config.
func New(config Config) (*Crawl, error) {
	config, err := config.check()
	if err != nil {
		return nil, err
	}
	c := &Crawl{
		cfg:      config,
		memory:   config.budget(),
		backlog:  newBacklog(config.Memory),
		ruleBook: newRuleBook(config.Memory),
		roster:   newRoster(config.Pass),
		pages:    newPages(),
		slots:    newSlots(cmp.Or(config.Concurrency, autoStart), config.MaxConnections),
		readers:  make(chan struct{}, runtime.GOMAXPROCS(0)),
		wake:     make(chan struct{}, 1),

		documentTime: DocumentTime,
		dearTime:     dearTime,
	}
	c.tally.hosts, c.tally.outcomes, c.tally.causes = NewHostCounts(), make(map[frontier.Outcome]uint64), make(map[string]uint64)
	if config.Rate > 0 {
		c.limiter = rate.NewLimiter(rate.Limit(config.Rate), 1)
	}
	if config.Bandwidth > 0 {
		c.bandwidth = newBandwidth(config.Bandwidth, config.Client.BytesRead)
	}
	c.hard, c.abort = context.WithCancelCause(context.Background())
	return c, nil
}

// Abort ends requests under way at once; their items go back to the queue, and Run
// returns soon.
func (c *Crawl) Abort() { c.abort(ErrGraceOver) }

// Wake makes a running Run look for due hosts now. It is for callers that added
// URLs.
func (c *Crawl) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Hold prevents Run from ending for lack of URLs until the returned function is
// called. Callers that are about to add URLs use it.
func (c *Crawl) Hold() (release func()) {
	c.feeds.Add(1)
	return sync.OnceFunc(func() {
		c.feeds.Add(-1)
		c.Wake()
	})
}

// Run crawls until nothing is left, a limit is reached or ctx ends. When ctx ends, requests
// under way get the time Config.Grace to finish, and their completions get 2 s more. When
// Run returns, all its goroutines have ended. Run may be called only once for a Crawl. If
// the store, Config.Sink, Config.Edges or Config.Archive fails, Run returns the error.
// Everything that was committed is safe, and a new Crawl with the same store continues from
// there.
func (c *Crawl) Run(ctx context.Context) (End, error) {
	if c.ran.Swap(true) {
		return "", errors.New("fetcher: Run was called before")
	}
	defer c.abort(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.hard, func() { cancel(ErrGraceOver) })()
	defer context.AfterFunc(ctx, func() { callAfter(c.hard, c.cfg.Grace, c.Abort) })()

	last, cancelLast := context.WithCancel(context.Background())
	defer cancelLast()
	defer context.AfterFunc(c.hard, func() { callAfter(last, completeTime, cancelLast) })()
	c.stopping, c.last = ctx, last
	failure := make(chan error, 1) // the first error
	fail := func(err error) {
		select {
		case failure <- err:
		default:
		}
		cancel(err)
	}
	var leases, watcher sync.WaitGroup
	watch, unwatch := context.WithCancel(c.hard)
	watcher.Go(func() { c.watch(watch) })
	end, err := c.acquire(ctx, func(l *holding) {
		c.held.Add(1)
		l.setParked(false)
		leases.Add(1)
		go c.work(ctx, l, func(err error) {
			defer leases.Done()
			if err != nil {
				fail(err)
			}
			c.held.Add(-1)
			l.setParked(true)
		})
	})
	if err != nil {
		fail(err)
	}
	leases.Wait()
	unwatch()
	watcher.Wait()
	select {
	case err := <-failure:
		return "", err
	default:
		return end, nil
	}
}

// work processes a lease, pauses while its host must get no request, and calls the
// function done at the end.
func (c *Crawl) work(stop context.Context, l *holding, done func(error)) {
	rest, err := l.run(stop)
	if rest <= 0 {
		done(err)
		return
	}
	l.setParked(true)
	parked := time.Now()
	callAfter(stop, rest, func() {
		l.setParked(false)
		c.tally.count(c.tally.hosts.Waiting, l.lease.Host, uint64(time.Since(parked).Milliseconds()))
		c.work(stop, l, done)
	})
}

const (
	// minHeld is the number of hosts that a worker can hold even with few slots.
	minHeld = 4096
	// heldPerSlot is how many hosts a worker with many slots can hold for each slot. Eight
	// hosts keep a slot busy if each request takes an eighth of its host's delay. If requests
	// take longer, fewer hosts are enough.
	heldPerSlot = 8
)

// pollMax is the longest wait between two calls to a store, because other workers may
// have added URLs.
const pollMax = time.Second

// pollMin is the shortest time between two calls to a store that had no due hosts.
const pollMin = 5 * time.Millisecond

// acquire leases hosts while there is room, and starts to work on them.
func (c *Crawl) acquire(stop context.Context, start func(*holding)) (End, error) {
	for {
		if stop.Err() != nil {
			return Stopped, nil
		}
		_, slots, _ := c.slots.prompt.counts()
		most := max(minHeld, heldPerSlot*int64(slots))
		room := min(2*int64(slots)-c.ready.Load(), most-c.held.Load(), 256)
		if room <= 0 || c.squeezed.Load() && c.held.Load() > 0 {
			c.tally.due.Store(true)
			sleep(stop, c.wake, pollMax)
			continue
		}
		ids := newLeaseIDs(int(room)) // the same in all calls, because the answer of a failed call may have been lost
		var asked time.Time
		var fed, idle bool
		var grant frontier.Grant
		err := c.whileUnavailable(stop, func() (err error) {
			asked = time.Now()
			fed, idle = c.feeds.Load() == 0, c.held.Load() == 0
			p := c.cfg.Policy()
			grant, err = c.cfg.Store.Lease(stop, frontier.LeaseRequest{
				Worker: c.cfg.Worker, IDs: ids, InFlight: visitRoom(p.HostConcurrency), MaxPages: p.MaxPages,
			})
			return err
		})
		switch {
		case stop.Err() != nil && err != nil:
			return Stopped, nil
		case err != nil:
			return "", err
		}
		short := len(grant.Leases) < len(ids)
		c.noteStore(nil)
		c.tally.due.Store(!short)
		c.tally.idle.Store(len(grant.Leases) == 0 && idle && fed && !grant.Empty && !grant.Paused && !grant.Limited)
		for _, l := range grant.Leases {
			start(c.newHolding(l, asked))
		}
		switch {
		case len(grant.Leases) > 0:
		case grant.Empty && idle && fed:
			return Empty, nil
		case grant.Reached && idle:
			return Limit, nil
		case idle && fed && grant.Wait >= pollMax && !grant.Empty && !grant.Paused && !grant.Limited:
			only, err := c.onlyBlocked(stop)
			switch {
			case stop.Err() != nil:
				return Stopped, nil
			case err != nil && !errors.Is(err, frontier.ErrUnavailable):
				return "", err
			case only:
				return Blocked, nil
			}
		}
		if short {
			c.rest(stop, grant)
		}
	}
}

// rest waits until the store may have more due hosts. It is called if grant had fewer
// hosts than requested.
func (c *Crawl) rest(stop context.Context, grant frontier.Grant) {
	wait := min(grant.Wait, pollMax)
	if grant.Empty || grant.Limited || grant.Paused { // waiting makes no host due in these cases
		wait = pollMax
	}
	pause(stop, pollMin)
	sleep(stop, c.wake, wait)
}

// pause waits until the time d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) { sleep(ctx, nil, d) }

// sleep waits until the time d has passed, the channel wake has a value or ctx ends.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

func newLeaseIDs(n int) []frontier.LeaseID {
	ids := make([]frontier.LeaseID, n)
	for i := range ids {
		_, _ = rand.Read(ids[i][:])
	}
	return ids
}

// random returns a random number in [0, 1).
func random() float64 { return mathrand.Float64() }
