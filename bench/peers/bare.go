package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/PuerkitoBio/goquery"
	"github.com/andybalholm/cascadia"
	"golang.org/x/sync/errgroup"
)

var links = cascadia.MustCompile("a[href]")

// bare is the fastest crawler that net/http, goquery and a map make: the
// measure of what our promises cost. It has none: no robots.txt, no delay, no
// limit on bodies, no charset, nothing on disk, and it stops at the first
// error. It stays on the host of start.
func bare(ctx context.Context, start string, workers int) (pages int, err error) {
	home, err := url.Parse(start)
	if err != nil {
		return 0, err
	}
	todo := newQueue(home.String())
	loop := bareLoop{home: home, todo: todo, transport: &http.Transport{
		MaxIdleConns:        workers,
		MaxIdleConnsPerHost: workers, // the default of 2 closes nearly every connection
		DisableCompression:  true,    // or it would ask for gzip, which costs more than loopback
		ReadBufferSize:      64 << 10,
	}}
	defer loop.transport.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, todo.close)()
	counts := make([]int, workers)
	for i := range workers {
		group.Go(func() (err error) {
			counts[i], err = loop.work(ctx)
			return err
		})
	}
	err = group.Wait()
	for _, n := range counts {
		pages += n
	}
	return pages, err
}

type bareLoop struct {
	home      *url.URL
	todo      *queue
	transport *http.Transport
}

// work fetches pages until none is left and returns how many were HTML.
func (l *bareLoop) work(ctx context.Context) (pages int, err error) {
	var body bytes.Buffer
	var found []string
	onPage := make(map[string]bool) // the page's raw references: most are there many times
	for {
		page, ok := l.todo.take()
		if !ok {
			return pages, context.Cause(ctx)
		}
		html, base, err := l.fetch(ctx, page, &body)
		if err != nil {
			return pages, err
		}
		found = found[:0]
		if html {
			pages++
			clear(onPage)
			if found, err = l.outlinks(base, &body, onPage, found); err != nil {
				return pages, fmt.Errorf("%s: %w", page, err)
			}
		}
		l.todo.put(found)
	}
}

// fetch reads the body of page into body. Redirects are followed within the
// host; base is where they ended.
func (l *bareLoop) fetch(ctx context.Context, page string, body *bytes.Buffer) (html bool, base *url.URL, err error) {
	base, err = url.Parse(page)
	if err != nil {
		return false, nil, err
	}
	for range 10 {
		request := (&http.Request{Method: http.MethodGet, URL: base, Header: make(http.Header, 1)}).WithContext(ctx)
		response, err := l.transport.RoundTrip(request) // a Client would add cookies, timers and redirects
		if err != nil {
			return false, nil, err
		}
		body.Reset()
		_, err = body.ReadFrom(response.Body)
		_ = response.Body.Close() // it was read to its end, or err says why not
		if err != nil {
			return false, nil, err
		}
		target, err := response.Location()
		if err != nil || response.StatusCode/100 != 3 {
			html = response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/html")
			return html, base, nil
		}
		if base = target; base.Host != l.home.Host {
			return false, base, nil
		}
	}
	return false, base, nil // a loop
}

// outlinks appends the links of the page to the same host, each raw reference
// resolved once.
func (l *bareLoop) outlinks(base *url.URL, body *bytes.Buffer, onPage map[string]bool, found []string) ([]string, error) {
	document, err := goquery.NewDocumentFromReader(body)
	if err != nil {
		return found, err
	}
	for _, node := range document.FindMatcher(links).Nodes {
		for _, attribute := range node.Attr {
			if attribute.Key != "href" {
				continue
			}
			reference, _, _ := strings.Cut(attribute.Val, "#")
			if reference == "" || onPage[reference] {
				break
			}
			onPage[reference] = true
			target, err := base.Parse(reference)
			if err == nil && target.Host == l.home.Host && target.Scheme == l.home.Scheme {
				found = append(found, target.String())
			}
			break
		}
	}
	return found, nil
}

// queue hands out each page once, and knows when none can come any more.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	seen   map[string]struct{}
	pages  []string
	busy   int // pages that were taken and whose links are still to come
	closed bool
}

func newQueue(start string) *queue {
	q := &queue{seen: map[string]struct{}{start: {}}, pages: []string{start}}
	q.more = sync.NewCond(&q.mu)
	return q
}

// take returns a page whose links the caller brings with put. ok is false when
// all pages were crawled or the queue was closed.
func (q *queue) take() (page string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.pages) == 0 && q.busy > 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.pages) == 0 || q.closed {
		return "", false
	}
	last := len(q.pages) - 1
	page, q.pages = q.pages[last], q.pages[:last]
	q.busy++
	return page, true
}

// put queues the links of a page that are new, and ends the work on that page.
func (q *queue) put(found []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, link := range found {
		if _, old := q.seen[link]; !old {
			q.seen[link] = struct{}{}
			q.pages = append(q.pages, link)
		}
	}
	q.busy--
	q.more.Broadcast()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
