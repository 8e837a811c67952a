package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/sync/errgroup"
)

// loopWorkers is how many requests the loop makes at once.
const loopWorkers = 64

// Loop crawls the Place that order describes as fast as net/http, html.Tokenizer
// and a map can, and prints what it Took on out. It promises nothing.
func Loop(ctx context.Context, order string, out io.Writer) error {
	var place Place
	if err := json.Unmarshal([]byte(order), &place); err != nil {
		return fmt.Errorf("loop over %q: %w", order, err)
	}
	dialer := new(net.Dialer)
	l := &loop{place: place, todo: newQueue(place.Seeds), transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, place.Addr)
		},
		MaxIdleConns: loopWorkers, MaxIdleConnsPerHost: loopWorkers, DisableCompression: true,
	}}
	defer l.transport.CloseIdleConnections()
	began := time.Now()
	group, within := errgroup.WithContext(ctx)
	defer context.AfterFunc(within, l.todo.close)()
	counts := make([]uint64, loopWorkers)
	for i := range counts {
		group.Go(func() (err error) {
			counts[i], err = l.work(within)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := Took{Seconds: time.Since(began).Seconds()}
	for _, n := range counts {
		took.Pages += n
	}
	return json.NewEncoder(out).Encode(took)
}

type loop struct {
	place     Place
	todo      *queue
	transport *http.Transport
}

// work fetches pages until none is left and returns how many were HTML.
func (l *loop) work(ctx context.Context) (pages uint64, err error) {
	var body bytes.Buffer
	for {
		page, ok := l.todo.take()
		if !ok {
			return pages, context.Cause(ctx)
		}
		base, err := url.Parse(page)
		if err != nil {
			return pages, err
		}
		isHTML, target, err := l.fetch(ctx, base, &body)
		if err != nil {
			return pages, err
		}
		var found []string
		switch {
		case target != nil:
			found = l.follow(found, target)
		case isHTML:
			pages++
			found = l.outlinks(base, &body)
		}
		l.todo.put(found)
	}
}

// fetch reads a page into body, or returns where it redirects.
func (l *loop) fetch(ctx context.Context, page *url.URL, body *bytes.Buffer) (isHTML bool, target *url.URL, err error) {
	request := (&http.Request{Method: http.MethodGet, URL: page, Header: make(http.Header, 1)}).WithContext(ctx)
	response, err := l.transport.RoundTrip(request)
	if err != nil {
		return false, nil, err
	}
	defer response.Body.Close()
	body.Reset()
	if _, err := body.ReadFrom(response.Body); err != nil {
		return false, nil, err
	}
	if response.StatusCode/100 == 3 {
		target, _ = response.Location()
	}
	isHTML = response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/html")
	return isHTML, target, nil
}

// outlinks returns the links of a page, each raw reference once.
func (l *loop) outlinks(base *url.URL, body *bytes.Buffer) (found []string) {
	known := make(map[string]bool)
	for z := html.NewTokenizer(body); ; {
		switch z.Next() {
		case html.ErrorToken:
			return found
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if string(name) != "a" {
				continue
			}
			for more {
				var key, value []byte
				if key, value, more = z.TagAttr(); string(key) != "href" {
					continue
				}
				value, _, _ = bytes.Cut(value, []byte("#"))
				if known[string(value)] {
					break
				}
				known[string(value)] = true
				if target, err := base.Parse(string(value)); err == nil {
					found = l.follow(found, target)
				}
				break
			}
		}
	}
}

// follow appends a URL if it is of the site.
func (l *loop) follow(found []string, target *url.URL) []string {
	target.Fragment = ""
	if target.Scheme == "http" && (l.place.Any || target.Host == l.place.Addr) {
		found = append(found, target.String())
	}
	return found
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

func newQueue(seeds []string) *queue {
	q := &queue{seen: make(map[string]struct{}), busy: 1}
	q.more = sync.NewCond(&q.mu)
	q.put(seeds)
	return q
}

// take returns a page whose links the caller brings with put; false: there is
// none left, or the queue was closed.
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
