package exact_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// files holds records. Sync makes the appended records durable.
type files struct {
	mu      sync.Mutex
	pending []exact.Ref
	synced  map[exact.Ref]int
}

func (f *files) append(ref exact.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, ref)
}

func (f *files) Sync() (frontier.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ref := range f.pending {
		f.synced[ref]++
	}
	f.pending = nil
	return nil, nil
}

// output is the output of the queue. It outlives the worker processes.
type output struct{ current *exact.Output }

func (o *output) Sync() (frontier.Position, error) { return o.current.Sync() }

func (o *output) end(ends []exact.Finished) { o.current.End(ends) }

// weak is a Set that is unavailable at times. The function in its field fails decides for each
// call whether it fails before it takes effect, or afterwards. The argument call is the number
// of earlier calls of the same method.
type weak struct {
	exact.Set
	mu    sync.Mutex
	calls map[string]int
	fails func(op string, call int) (before, after bool)
	late  func(op string) // called after each call, unless it is nil
}

var errWeak = fmt.Errorf("the set is away: %w", frontier.ErrUnavailable)

func (w *weak) try(op string, call func() error) error {
	w.mu.Lock()
	before, after := false, false
	if w.fails != nil {
		before, after = w.fails(op, w.calls[op])
	}
	w.calls[op]++
	w.mu.Unlock()
	if before {
		return errWeak
	}
	if err := call(); err != nil {
		return err
	}
	if w.late != nil {
		w.late(op)
	}
	if after {
		return errWeak
	}
	return nil
}

func (w *weak) Decide(ctx context.Context, keys []exact.Key) (answers []exact.Answer, err error) {
	err = w.try("decide", func() error { answers, err = w.Set.Decide(ctx, keys); return err })
	if err != nil {
		answers = nil
	}
	return answers, err
}

func (w *weak) Queued(ctx context.Context, keys []exact.Ref) error {
	return w.try("queued", func() error { return w.Set.Queued(ctx, keys) })
}

func (w *weak) Withdraw(ctx context.Context, keys []exact.Ref) error {
	return w.try("withdraw", func() error { return w.Set.Withdraw(ctx, keys) })
}

func (w *weak) Finish(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
	return w.try("finish", func() error { return w.Set.Finish(ctx, finished, records) })
}

func (w *weak) Stale(ctx context.Context, age time.Duration, n int) (entries []exact.Entry, err error) {
	err = w.try("stale", func() error { entries, err = w.Set.Stale(ctx, age, n); return err })
	return entries, err
}

func (w *weak) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) (entries []exact.Entry, err error) {
	err = w.try("waiting", func() error { entries, err = w.Set.Waiting(ctx, after, n); return err })
	return entries, err
}

// world is a crawl of a small web. Its queue, its set and its records outlive
// its worker processes.
type world struct {
	*testing.T
	pages int
	clock *suite.Clock
	queue *frontiertest.Memory
	set   *exacttest.Memory
	weak  *weak
	files *files
	out   *output
	crash func(point string) // called at crash points; nil means that no process dies
	rows  bool               // records are stored in the set

	moment    sync.RWMutex // locked while time moves, and read-locked by calls, so that no time passes during a call
	lastLease atomic.Uint64
	client    *exact.Client // of the queue; its set belongs to the current process
	forwarder *exact.Forwarder
}

func newWorld(t *testing.T, pages int, windows exact.Windows) *world {
	w := &world{T: t, pages: pages, clock: suite.NewClock(), files: &files{synced: map[exact.Ref]int{}}, out: new(output)}
	w.set = exacttest.NewMemory(exacttest.Options{Now: w.clock.Now, Windows: windows})
	w.weak = &weak{Set: w.set, calls: map[string]int{}}
	w.client = &exact.Client{Rules: mustRules(t, `seeds,re=/[a-z]*2$`), End: w.out.end, Now: w.clock.Now}
	w.useQueue(w.newQueue(30*time.Second, 0))
	crash.Hook(func(point string) {
		if w.crash != nil {
			w.crash(point)
		}
	})
	t.Cleanup(func() { crash.Hook(nil) })
	return w
}

// start starts a process. The memory of the previous process is lost.
func (w *world) start() {
	w.files.pending = nil
	w.client.Set = exact.NewBreaker(w.weak, time.Nanosecond)
	w.out.current = exact.NewOutput(exact.OutputConfig{Set: w.client.Set, Files: w.files, Rows: w.rows})
}

// useQueue makes the crawl use another queue.
func (w *world) useQueue(queue *frontiertest.Memory) {
	w.queue = queue
	w.forwarder = &exact.Forwarder{Client: w.client, Queue: queue, Host: hostOf, Batch: 7}
}

// newQueue returns an empty queue. most is the maximum number of items of a host; 0 means no limit.
func (w *world) newQueue(ttl time.Duration, most uint64) *frontiertest.Memory {
	return frontiertest.NewMemory(frontiertest.MemoryConfig{Now: w.clock.Now, Output: w.out, Exact: w.client, LeaseTTL: ttl, MaxPerHost: most})
}

// page returns the n-th page. Every third page is bulk, every third is exact because of
// its URL, and every third is exact because of how it was found.
func (w *world) page(n int) frontier.Offer {
	n %= w.pages
	item := frontier.Offer{Host: fmt.Sprintf("h%d.test", n%4), Depth: uint16(n), Priority: frontier.PriorityPage}
	item.URL = fmt.Sprintf("https://%s/%d/x%d", item.Host, n, n%3)
	item.Class = [...]frontier.Class{frontier.Bulk, frontier.Exact, 4}[n%3]
	return item
}

// links returns the links of the n-th page; all pages can be reached from page
// 0.
func (w *world) links(n int) []frontier.Offer {
	return []frontier.Offer{w.page(n + 1), w.page(2 * n), w.page(3*n + 2), w.page(n + 1), w.page(7*n + 5)}
}

func (w *world) number(url string) (n int) {
	var host, kind int
	if _, err := fmt.Sscanf(url, "https://h%d.test/%d/x%d", &host, &n, &kind); err != nil {
		w.Error(err)
	}
	return n
}

func (w *world) leaseID() (id frontier.LeaseID) {
	binary.BigEndian.PutUint64(id[:], w.lastLease.Add(1))
	return id
}

// completion returns the completion of an item that was fetched, with links and a record.
func (w *world) completion(item frontier.Item) frontier.Completion {
	ref := exact.Ref{Fingerprint: item.Fingerprint, Round: item.Round}
	c := frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true, Links: w.links(w.number(item.URL))}
	c.Record = func(frontier.LinkCounts) error {
		if w.rows {
			w.out.current.Append(exact.Row{Ref: ref, URL: item.URL, Outcome: frontier.OK, Status: 200, Record: []byte("{}")})
		} else {
			w.files.append(ref)
		}
		return nil
	}
	return c
}

// inOneMoment makes a call while no time passes. Otherwise, on a busy machine, the
// scheduler could pause a goroutine between two steps for longer than the Client permits.
func (w *world) inOneMoment(call func()) {
	w.moment.RLock()
	defer w.moment.RUnlock()
	call()
}

// whileAway repeats a call until the set answers.
func (w *world) whileAway(call func() error) error {
	for range 10_000 {
		var err error
		w.inOneMoment(func() { err = call() })
		if !errors.Is(err, frontier.ErrUnavailable) {
			return err
		}
		time.Sleep(20 * time.Microsecond) // without a pause, workers would block each other
	}
	return errors.New("the set was away ten thousand times in a row")
}

// work leases one host and completes its items, some of them together. The result over
// reports whether nothing is left to do.
func (w *world) work() (over bool) {
	grant, err := w.queue.Lease(w.Context(), frontier.LeaseRequest{Worker: "w", IDs: []frontier.LeaseID{w.leaseID()}, InFlight: 1})
	if err != nil {
		w.Error(err)
		return true
	}
	for _, l := range grant.Leases {
		for items := range slices.Chunk(l.Items, 3) {
			var done []frontier.Completion
			for _, item := range items {
				done = append(done, w.completion(item))
			}
			err := w.whileAway(func() error { return w.queue.Complete(w.Context(), l.ID, done, frontier.HostUpdate{}) })
			if errors.Is(err, frontier.ErrLeaseLost) {
				return false
			} else if err != nil {
				w.Error(err)
				return true
			}
		}
		err := w.whileAway(func() error { return w.queue.Complete(w.Context(), l.ID, nil, frontier.HostUpdate{End: true}) })
		if err != nil && !errors.Is(err, frontier.ErrLeaseLost) {
			w.Error(err)
		}
	}
	if len(grant.Leases) == 0 && !grant.Empty {
		w.moment.Lock()
		w.clock.Advance(5 * time.Second)
		w.moment.Unlock()
	}
	return grant.Empty
}

// forward makes a forwarder do one round of its work.
func (w *world) forward() {
	var err error
	w.inOneMoment(func() { err = w.forwarder.Tidy(w.Context()) })
	if err != nil && !errors.Is(err, frontier.ErrUnavailable) {
		w.Error(err)
	}
}

func (w *world) seed() {
	seed := w.page(0)
	seed.Class, seed.Priority = frontier.Exact, frontier.PrioritySeed
	err := w.whileAway(func() error {
		_, err := w.queue.Add(w.Context(), []frontier.Offer{seed, w.page(1), w.page(2)})
		return err
	})
	if err != nil {
		w.Error(err)
	}
}

// run crawls to the end, with one process at a time. Each process lives until a crash
// point kills it.
func (w *world) run() {
	w.start()
	seeded := false
	for turns, over := 0, false; !over; turns++ {
		if turns > 5000 {
			stats, _ := w.set.Stats(w.Context())
			w.Fatalf("the crawl does not end: the set has %+v", stats)
		}
		w.survive(func() {
			if !seeded {
				w.seed()
				seeded = true
			}
			w.forward()
			over = w.work()
		})
		if w.Failed() {
			return
		}
	}
}

// died is the value with which crash points panic.
type died struct{ point string }

// survive calls step, and starts another process if the current one dies.
func (w *world) survive(step func()) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case died:
			w.start()
		default:
			panic(found)
		}
	}()
	step()
}

// verify checks that every page has a record in round 0 and none in another round, that the
// exact pages after page 0 are done in the set, and that the queue is empty.
func (w *world) verify() {
	w.Helper()
	records := w.files.synced
	if w.rows {
		rows, _ := w.set.Records(w.Context())
		for _, row := range rows {
			records[row.Ref]++
		}
	}
	for n := range w.pages {
		item := w.page(n)
		ref := exact.Ref{Fingerprint: w.queue.Hasher().Fingerprint(item.URL)}
		if records[ref] == 0 {
			w.Errorf("page %d of class %d has no record", n, item.Class)
		}
		delete(records, ref)
		status, _ := w.set.Lookup(w.Context(), ref.Fingerprint)
		if want := (exact.Status{State: exact.Done, Class: item.Class, Outcome: frontier.OK, HTTP: 200, Forever: true}); item.Class != frontier.Bulk && n > 0 && status != want {
			w.Errorf("page %d of class %d has the status %+v in the set, want %+v", n, item.Class, status, want)
		}
	}
	if len(records) > 0 {
		w.Errorf("%d records in other rounds, want none: %v", len(records), records)
	}
	stats, _ := w.queue.Stats(w.Context())
	if err := stats.Balance(); err != nil || stats.Queued+stats.Leased > 0 {
		w.Errorf("at the end the queue has %+v (%v), want 0 queued and leased", stats, err)
	}
	if stats.Promoted > 0 {
		w.Errorf("Stats.Promoted = %d, want 0", stats.Promoted)
	}
}
