package contest

import (
	"strings"
	"sync"
	"time"
)

// queue hands out each page once, and detects that no more pages can be found. With a
// delay, it hands out one page of a host at a time, and waits at least the delay
// between two pages of a host.
type queue struct {
	delay time.Duration

	mu     sync.Mutex
	more   *sync.Cond
	seen   map[string]struct{}
	hosts  map[string]*host // by name; empty without a delay
	due    []string
	open   int // number of pages that wait or are with a worker
	closed bool
}

type host struct {
	pages []string  // pages that wait until the current page of the host is done
	next  time.Time // the earliest time of the next request
	busy  bool      // the host has a current page, which is due, scheduled, or with a worker
}

func newQueue(seeds []string, delay time.Duration) *queue {
	q := &queue{delay: delay, seen: make(map[string]struct{}), hosts: make(map[string]*host)}
	q.more = sync.NewCond(&q.mu)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(seeds)
	return q
}

func hostOf(page string) string {
	_, rest, _ := strings.Cut(page, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// add queues the pages that are new.
func (q *queue) add(found []string) {
	for _, page := range found {
		if _, old := q.seen[page]; old {
			continue
		}
		q.seen[page] = struct{}{}
		q.open++
		if q.delay == 0 {
			q.makeDue(page)
			continue
		}
		name := hostOf(page)
		h := q.hosts[name]
		if h == nil {
			h = new(host)
			q.hosts[name] = h
		}
		h.pages = append(h.pages, page)
		q.schedule(h)
	}
}

// schedule makes the next page of a host due, now or when the host's delay is over. It
// does nothing if another page of the host is due, scheduled, or with a worker.
func (q *queue) schedule(h *host) {
	if h.busy || len(h.pages) == 0 {
		return
	}
	h.busy = true
	page := h.pages[0]
	h.pages = h.pages[1:]
	if wait := time.Until(h.next); wait > 0 {
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.makeDue(page)
		})
		return
	}
	q.makeDue(page)
}

func (q *queue) makeDue(page string) {
	q.due = append(q.due, page)
	q.more.Signal()
}

// take returns a page. The caller must then call put with the links of the page. ok is
// false if no page is left, or after a call of close.
func (q *queue) take() (page string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.due) == 0 && q.open > 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.due) == 0 || q.closed {
		return "", false
	}
	page, q.due = q.due[0], q.due[1:]
	if q.delay > 0 {
		q.hosts[hostOf(page)].next = time.Now().Add(q.delay)
	}
	return page, true
}

// put ends the work on a page, and queues the links in found that are new.
func (q *queue) put(page string, found []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(found)
	if q.delay > 0 {
		h := q.hosts[hostOf(page)]
		h.busy = false
		q.schedule(h)
	}
	if q.open--; q.open == 0 {
		q.more.Broadcast()
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
