package fetcher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// lastSecond is the part of a lease in which nothing is started any more.
const lastSecond = time.Second

// maxPark is the longest wait for a host's delay that keeps its lease.
const maxPark = 20 * time.Second

// holding is a lease being worked on. One goroutine, run, decides what happens
// next; each visit has its own.
type holding struct {
	*Crawl
	lease frontier.Lease
	rules HostRules
	since time.Time     // when the lease was asked for
	asks  chan struct{} // requests under way, up to the host's concurrency
	room  chan struct{} // visits not completed, up to visitRoom of it

	// run's alone
	deadline time.Time
	received int
	pending  []frontier.Item
	full     bool           // the store had as many items as were asked for
	coming   chan extension // what a prefetch under way will bring; nil: none is

	mu          sync.Mutex
	host        *politeness.Host
	origins     map[string]*robots.State // by origin
	changed     bool                     // what the blob keeps, since it was last sent
	asking      int                      // requests under way; the slot is held while there are any
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
	rules := c.cfg.Hosts(l.Host)
	policy := c.cfg.Politeness
	if rules.Politeness != nil {
		policy = *rules.Politeness
	}
	if rules.HostConcurrency == 0 {
		rules.HostConcurrency = c.cfg.HostConcurrency
	}
	h := &holding{
		Crawl: c, lease: l, rules: rules, since: asked, deadline: asked.Add(l.TTL),
		asks: make(chan struct{}, rules.HostConcurrency), room: make(chan struct{}, visitRoom(rules.HostConcurrency)),
		received: len(l.Items), pending: l.Items, full: len(l.Items) >= fullBatch,
		host: politeness.New(policy), origins: make(map[string]*robots.State),
	}
	if err := h.readBlob(l.Blob, time.Now()); err != nil {
		c.cfg.Logger.Warn("host state unreadable, starting anew", slog.String("host", l.Host), slog.Any("err", err))
	}
	return h
}

// visitRoom is how many visits of one host may be unfinished at once: more than
// its requests, so that a host is asked on while a page waits for the disk.
func visitRoom(hostConcurrency int) int { return 4*hostConcurrency + 12 }

// fullBatch is the size of a first batch behind which there may be more.
const fullBatch = 32

// run works the lease off. It returns an error of the store that ends the crawl.
func (h *holding) run(stop context.Context) error {
	h.ready.Add(1)
	defer h.ready.Add(-1)
	for h.next(stop) {
		if err := h.step(stop); err != nil {
			break
		}
	}
	h.take(true) // so that what it brought goes back with the lease
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.visits.Wait()
	h.finish()
	if h.failure != nil {
		return &storeError{h.failure}
	}
	return nil
}

// errStop ends run's loop; what is pending goes back with the lease.
var errStop = errors.New("fetcher: nothing more under this lease")

// next sees to it that there is an item to work on under a lease that lasts.
func (h *holding) next(stop context.Context) bool {
	if stop.Err() != nil || h.over() {
		return false
	}
	young := time.Since(h.since) < h.lease.TTL
	if len(h.pending) < 2*h.rules.HostConcurrency && h.full && young {
		h.prefetch(stop)
	}
	h.take(len(h.pending) == 0)
	if time.Until(h.deadline) < h.lease.TTL/2 {
		h.extend(stop, 0)
	}
	return len(h.pending) > 0 && !h.over()
}

func (h *holding) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost || h.failure != nil
}

// batch is how many more items fit into a lease time.
func (h *holding) batch() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host.Dead() {
		return 8 * fullBatch
	}
	if delay := h.host.Delay(); delay > 0 {
		return int(min(max(h.lease.TTL/delay, 1), 2*fullBatch))
	}
	return max(2*fullBatch, 8*h.rules.HostConcurrency)
}

// extension is what came of Store.Extend.
type extension struct {
	frontier.Extension
	more  int       // items asked for
	asked time.Time // the moment before
	err   error     // nil, or why the lease is over
}

// prefetch takes more items while those at hand are worked on.
func (h *holding) prefetch(stop context.Context) {
	if h.coming != nil {
		return
	}
	more, known, deadline := h.batch(), h.received, h.deadline
	items := h.unfinished() + more
	coming := make(chan extension, 1)
	h.coming = coming
	h.visits.Go(func() { coming <- h.ask(stop, items, more, known, deadline) })
}

// take merges what a prefetch brought; with wait it waits for one under way.
func (h *holding) take(wait bool) {
	if h.coming == nil {
		return
	}
	if !wait {
		select {
		case ext := <-h.coming:
			h.merge(ext)
		default:
		}
		return
	}
	h.merge(<-h.coming)
}

func (h *holding) merge(ext extension) {
	h.coming = nil
	switch {
	case ext.err != nil:
		h.note(ext.err)
	case ext.TTL > 0:
		h.deadline = ext.asked.Add(ext.TTL)
		h.received += len(ext.Items)
		h.pending = append(h.pending, ext.Items...)
		if ext.more > 0 {
			h.full = len(ext.Items) >= ext.more
		}
	}
}

// extend prolongs the lease and takes more items, now.
func (h *holding) extend(stop context.Context, more int) {
	h.take(true)
	items := 0
	if more > 0 {
		items = h.unfinished() + more
	}
	h.merge(h.ask(stop, items, more, h.received, h.deadline))
}

// unfinished is how many items of the lease are in this worker's hands.
func (h *holding) unfinished() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outstanding + len(h.pending)
}

// ask calls Store.Extend, again while the store is unavailable and the lease
// lasts. An extension without TTL and error: the crawl was stopped meanwhile.
func (h *holding) ask(stop context.Context, items, more, known int, deadline time.Time) extension {
	for outage := (backoff{}); ; {
		asked := time.Now()
		ext, err := h.cfg.Store.Extend(stop, h.lease.ID, frontier.TopUp{Items: items, Known: known, MaxPages: h.cfg.MaxPages})
		switch {
		case err == nil:
			return extension{ext, more, asked, nil}
		case stop.Err() != nil:
			return extension{}
		case errors.Is(err, frontier.ErrUnavailable) && time.Until(deadline) > lastSecond:
			pause(stop, outage.next())
		default:
			return extension{err: err}
		}
	}
}

// note files an error of the store: the lease is over.
func (h *holding) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.Is(err, frontier.ErrLeaseLost), errors.Is(err, frontier.ErrUnavailable):
		h.lost = true
		h.tally.leasesLost.Add(1)
	case h.failure == nil:
		h.failure = err
	}
}

// step does the next thing for the first pending item.
func (h *holding) step(stop context.Context) error {
	item := h.pending[0]
	if h.dead() {
		return h.concludeAll(frontier.HostDead, "the host answers no more")
	}
	if item.Deliveries >= frontier.MaxDeliveries {
		return h.conclude(1, frontier.WorkerLost, "its workers died over it")
	}
	url, err := h.cfg.Canon.Parse(item.URL)
	if err != nil {
		return h.conclude(1, frontier.Network, err.Error())
	}
	if !h.rules.IgnoreRobots {
		switch access, rule := h.access(url.Origin(), url.Path()); access {
		case robots.Ask:
			return h.askRobots(stop, url)
		case robots.Wait:
			return h.robotsOut(url.Origin())
		case robots.Disallow:
			return h.conclude(1, frontier.Robots, "robots.txt: "+rule)
		}
	}
	if err := h.begin(stop); err != nil {
		return err
	}
	h.pending = h.pending[1:]
	h.mu.Lock()
	h.outstanding++
	h.mu.Unlock()
	h.visits.Go(func() { h.visit(item, url) })
	return nil
}

func (h *holding) dead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host.Dead()
}

// begin waits until a request may start and notes that it does. On success the
// caller owns one of asks, one of room and a share of the host's slot.
func (h *holding) begin(stop context.Context) error {
	for _, gate := range []chan struct{}{h.room, h.asks} {
		select {
		case gate <- struct{}{}:
		case <-stop.Done():
			if gate == h.asks {
				<-h.room
			}
			return errStop
		}
	}
	if err := h.beginAsked(stop); err != nil {
		<-h.asks
		<-h.room
		return err
	}
	return nil
}

func (h *holding) beginAsked(stop context.Context) error {
	if h.over() { // a visit that ended meanwhile may have learnt it
		return errStop
	}
	if err := h.limiter.Wait(stop); err != nil {
		return errStop
	}
	if err := h.takeSlot(stop); err != nil {
		return err
	}
	for {
		wait, err := h.due()
		switch {
		case err != nil:
			h.dropSlot()
			return err
		case time.Until(h.deadline) < lastSecond+wait:
			h.extend(stop, 0)
			if h.over() || stop.Err() != nil || time.Until(h.deadline) < lastSecond {
				h.dropSlot()
				return errStop
			}
		case wait > 0:
			// A host that waits for its delay takes no slot from others.
			h.dropSlot()
			h.park(stop, wait)
			if err := h.takeSlot(stop); err != nil {
				return err
			}
		default:
			h.mu.Lock()
			h.host.Start(time.Now())
			h.mu.Unlock()
			return nil
		}
	}
}

// due returns how long the host must still wait; errStop if that is too long to
// keep the lease.
func (h *holding) due() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	wait := h.host.Due(now)
	if h.host.Dead() || wait > 0 && h.host.BackoffUntil().After(now) || wait > maxPark && wait > h.lease.TTL/2 {
		return 0, errStop
	}
	return wait, nil
}

// park waits for the host's delay.
func (h *holding) park(stop context.Context, d time.Duration) {
	h.ready.Add(-1)
	h.Wake()
	pause(stop, d)
	h.ready.Add(1)
}

// takeSlot makes this host one of those being asked.
func (h *holding) takeSlot(stop context.Context) error {
	h.mu.Lock()
	h.asking++
	first := h.asking == 1
	h.mu.Unlock()
	if !first {
		return nil
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-stop.Done():
		h.mu.Lock()
		h.asking--
		h.mu.Unlock()
		return errStop
	}
}

// dropSlot ends what takeSlot began.
func (h *holding) dropSlot() {
	h.mu.Lock()
	h.asking--
	last := h.asking == 0
	h.mu.Unlock()
	if last {
		<-h.slots
	}
}

// complete tells the store what became of items. It holds on while the store
// is unavailable; a lease that was lost meanwhile has nothing to say any more.
func (h *holding) complete(done []frontier.Completion, end bool) {
	h.mu.Lock()
	update := frontier.HostUpdate{Due: h.host.Due(time.Now()), Delay: h.host.Delay(), End: end}
	if h.changed || end {
		update.Blob = h.appendBlob(nil)
		h.changed = false
	}
	due, lost := h.robotsDue(), h.lost
	update.Due = max(update.Due, due)
	h.mu.Unlock()
	if lost {
		return
	}
	ctx := context.Background() // bounded by the lease: then the store says so
	for outage := (backoff{}); ; {
		err := h.cfg.Store.Complete(ctx, h.lease.ID, done, update)
		switch {
		case err == nil:
			if end {
				h.mu.Lock()
				h.ended = true
				h.mu.Unlock()
			}
			return
		case errors.Is(err, frontier.ErrUnavailable) && h.hard.Err() == nil:
			pause(h.hard, outage.next())
		default:
			h.note(err)
			return
		}
	}
}

// finish gives the lease back, unless the last visit did.
func (h *holding) finish() {
	if !h.ended && !h.over() {
		h.complete(nil, true)
	}
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

// concludeAll finishes all pending items without a request.
func (h *holding) concludeAll(outcome frontier.Outcome, why string) error {
	h.full = true // ask for the rest of the queue too
	return h.conclude(len(h.pending), outcome, why)
}
