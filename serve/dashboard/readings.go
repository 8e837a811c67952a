package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

const (
	readEvery = 900 * time.Millisecond // of a crawl that runs
	idleEvery = 20 * time.Second       // of a crawl that does not run: to read it, its store is opened
	mostLists = 100                    // lists of hosts that are kept
	mostTook  = 100 * time.Millisecond // a store that is away makes each reading take long
	listShare = 200                    // a list is read again after this many times as long as it took, which is half a percent
)

// readings keep what was read of the crawls, for all tabs.
type readings struct {
	crawls Crawls

	mu     sync.Mutex
	boards map[string]*kept[report.Board] // by crawl
	lists  map[listKey]*kept[report.Hosts]
	names  kept[[]Crawl]
}

type listKey struct {
	crawl string
	query crawl.HostQuery
}

// kept is a value that was read. Only one goroutine reads it at a time.
type kept[T any] struct {
	mu    sync.Mutex
	value *T
	state string // of the crawl, at that time
	err   error  // of the last attempt; value is then older
	at    time.Time
	good  time.Time // when value was read
	took  time.Duration
}

// reading is the state of a crawl.
type reading struct {
	handle Handle
	board  *report.Board // nil if it was never read
	err    error         // why the board is old
	at     time.Time     // when the board was read
}

// get reads the value unless it is younger than every.
func (k *kept[T]) get(state string, every time.Duration, read func() (T, error)) {
	if k.state == state && time.Since(k.at) < every {
		return
	}
	begun := time.Now()
	value, err := read()
	k.state, k.err, k.at, k.took = state, err, time.Now(), min(time.Since(begun), mostTook)
	if err == nil {
		k.value, k.good = &value, k.at
	}
}

// list returns the crawls by name.
func (r *readings) list(ctx context.Context) []Crawl {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	r.names.get("", readEvery, func() ([]Crawl, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		return r.crawls.List(ctx), nil
	})
	return *r.names.value
}

// of returns the state of a crawl.
func (r *readings) of(ctx context.Context, c Crawl) reading {
	handle, err := r.crawls.Open(ctx, c.Name)
	if err != nil {
		return reading{err: err}
	}
	r.mu.Lock()
	if r.boards == nil {
		r.boards = make(map[string]*kept[report.Board])
	}
	k := r.boards[c.Name]
	if k == nil {
		k = new(kept[report.Board])
		r.boards[c.Name] = k
	}
	r.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	every := readEvery
	if k.value != nil && !k.value.Status.Running && k.err == nil {
		every = idleEvery
	}
	k.get(c.State, every, func() (report.Board, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime) // others want it, too
		defer cancel()
		return handle.Board(ctx)
	})
	out := reading{handle: handle, board: k.value, err: k.err, at: k.good}
	if out.err != nil {
		out.err = fmt.Errorf("the crawl does not answer: %w", out.err)
	}
	return out
}

// hosts returns a list of hosts of a crawl, and when it was read.
func (r *readings) hosts(ctx context.Context, c Crawl, handle Handle, query crawl.HostQuery) (*report.Hosts, time.Time, error) {
	key := listKey{c.Name, query}
	r.mu.Lock()
	if r.lists == nil || len(r.lists) >= mostLists {
		r.lists = make(map[listKey]*kept[report.Hosts])
	}
	k := r.lists[key]
	if k == nil {
		k = new(kept[report.Hosts])
		r.lists[key] = k
	}
	r.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	every := max(2*time.Second, listShare*k.took)
	if c.State != running {
		every = idleEvery
	}
	k.get(c.State, every, func() (report.Hosts, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		return handle.Hosts(ctx, query)
	})
	if k.value == nil {
		return nil, k.at, k.err
	}
	return k.value, k.good, nil
}

// forget makes the next view of a crawl read it again.
func (r *readings) forget(crawl string) {
	r.names.mu.Lock()
	r.names.at = time.Time{}
	r.names.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.boards, crawl)
	for key := range r.lists {
		if key.crawl == crawl {
			delete(r.lists, key)
		}
	}
}

// running is the state of a crawl that runs.
const running = "running"
