package crawl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/sync/errgroup"
)

// Order is what a loop is to do.
type Order struct {
	Place
	Workers int           // requests at once
	Delay   time.Duration // between the starts of two requests to a host; 0: a host can be asked many times at once
	Time    time.Duration // when to end; 0: when nothing is left
}

// loopWorkers is how many requests the loop makes at once beside a crawl without
// delay.
const loopWorkers = 64

// Loop carries out an Order as fast as net/http, html.Tokenizer and a map can,
// and prints what it Took on out. It promises nothing.
func Loop(ctx context.Context, order string, out io.Writer) error {
	var o Order
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return fmt.Errorf("loop over %q: %w", order, err)
	}
	l, err := newLoop(o)
	if err != nil {
		return err
	}
	defer l.transport.CloseIdleConnections()
	began := time.Now()
	if o.Time > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, o.Time, errTimeOver)
		defer cancel()
		defer time.AfterFunc(o.Time/2, func() { l.early.Store(l.pages.Load()) }).Stop()
		ctx = timed
	}
	group, within := errgroup.WithContext(ctx)
	defer context.AfterFunc(within, l.todo.close)()
	for range o.Workers {
		group.Go(func() error { return l.work(within) })
	}
	if err := group.Wait(); err != nil && !errors.Is(context.Cause(ctx), errTimeOver) {
		return err
	}
	took := Took{Pages: l.pages.Load(), Seconds: time.Since(began).Seconds(), GC: gcShare()}
	if o.Time > 0 {
		took.Later = float64(took.Pages-l.early.Load()) / (took.Seconds - o.Time.Seconds()/2)
	}
	return json.NewEncoder(out).Encode(took)
}

var errTimeOver = errors.New("the time is over")

type loop struct {
	place     Place
	todo      pages
	transport *http.Transport
	pages     atomic.Uint64 // that were HTML
	early     atomic.Uint64 // of them, in the first half of the time
}

// pages are what a loop has to fetch, each once.
type pages interface {
	// take returns a page whose links the caller brings with put; false: none is
	// left, or close was called.
	take() (page string, ok bool)
	// put adds the links of a page that are new, and ends the work on that page.
	put(page string, found []string)
	close()
}

func newLoop(o Order) (*loop, error) {
	dialer := new(net.Dialer)
	l := &loop{place: o.Place, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, o.Addr)
		},
		MaxIdleConns: o.Workers, MaxIdleConnsPerHost: o.Workers, DisableCompression: true,
	}}
	if o.CA != "" {
		trusted := x509.NewCertPool()
		if !trusted.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("the site's authority has no certificate")
		}
		l.transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	if o.Delay > 0 {
		l.todo = newHostQueue(o.Seeds, o.Delay)
	} else {
		l.todo = newQueue(o.Seeds)
	}
	return l, nil
}

// work fetches pages until none is left.
func (l *loop) work(ctx context.Context) error {
	var body bytes.Buffer
	for {
		page, ok := l.todo.take()
		if !ok {
			return context.Cause(ctx)
		}
		base, err := url.Parse(page)
		if err != nil {
			return err
		}
		isHTML, target, err := l.fetch(ctx, base, &body)
		if err != nil {
			return err
		}
		var found []string
		switch {
		case target != nil:
			found = l.follow(found, target)
		case isHTML:
			l.pages.Add(1)
			found = l.outlinks(base, &body)
		}
		l.todo.put(page, found)
	}
}

// gcShare returns the share of garbage collection in the processor time of this
// process so far, as the runtime estimates it.
func gcShare() float64 {
	classes := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(classes)
	return shareOf(classes[0].Value.Float64(), classes[1].Value.Float64()-classes[2].Value.Float64())
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
	scheme := "http"
	if l.place.CA != "" {
		scheme = "https"
	}
	if target.Scheme == scheme && (l.place.Any || target.Host == l.place.Addr) {
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
	q.put("", seeds)
	return q
}

// take implements pages.
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

// put implements pages.
func (q *queue) put(_ string, found []string) {
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
