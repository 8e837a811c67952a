package crawl

import (
	"strings"
	"sync"
	"time"
)

// hostQueue hands out each page once, one of a host at a time, and starts of
// pages of one host at least delay apart. It implements pages.
type hostQueue struct {
	delay time.Duration

	mu     sync.Mutex
	more   *sync.Cond
	seen   map[string]struct{}
	hosts  map[string]*queuedHost
	due    []*queuedHost // in the order in which they became due
	open   int           // pages that are queued, or taken and whose links are still to come
	closed bool
}

// queuedHost is in due, has a timer, is with a worker, or has no pages.
type queuedHost struct {
	pages []string
	next  time.Time // when it may be asked again
	idle  bool      // it has no pages
}

func newHostQueue(seeds []string, delay time.Duration) *hostQueue {
	q := &hostQueue{delay: delay, seen: make(map[string]struct{}), hosts: make(map[string]*queuedHost)}
	q.more = sync.NewCond(&q.mu)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(seeds)
	return q
}

// hostOf returns the scheme and host of a URL.
func hostOf(page string) string {
	_, rest, _ := strings.Cut(page, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// add queues those pages that are new.
func (q *hostQueue) add(found []string) {
	for _, page := range found {
		if _, old := q.seen[page]; old {
			continue
		}
		q.seen[page] = struct{}{}
		name := hostOf(page)
		h := q.hosts[name]
		if h == nil {
			h = &queuedHost{idle: true}
			q.hosts[name] = h
		}
		h.pages = append(h.pages, page)
		q.open++
		if h.idle {
			h.idle = false
			q.schedule(h)
		}
	}
}

// schedule makes a host due, now or when its delay is over.
func (q *hostQueue) schedule(h *queuedHost) {
	if wait := time.Until(h.next); wait > 0 {
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.makeDue(h)
		})
		return
	}
	q.makeDue(h)
}

func (q *hostQueue) makeDue(h *queuedHost) {
	q.due = append(q.due, h)
	q.more.Signal()
}

// take implements pages.
func (q *hostQueue) take() (page string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.due) == 0 && q.open > 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.due) == 0 || q.closed {
		return "", false
	}
	h := q.due[0]
	q.due = q.due[1:]
	page, h.pages = h.pages[0], h.pages[1:]
	h.next = time.Now().Add(q.delay)
	return page, true
}

// put implements pages.
func (q *hostQueue) put(page string, found []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(found) // page's host is not idle, so that this does not schedule it
	if h := q.hosts[hostOf(page)]; len(h.pages) > 0 {
		q.schedule(h)
	} else {
		h.idle = true
	}
	if q.open--; q.open == 0 {
		q.more.Broadcast()
	}
}

// close implements pages.
func (q *hostQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
