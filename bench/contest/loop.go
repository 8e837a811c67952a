// Package contest runs the parts of a comparison: a site, the crawler, and a bare loop.
// The bare loop crawls without the crawler's guarantees (see Loop). Each part is a
// separate process, so that its resources can be measured alone.
//
// The package owns the orders, which tell the processes what to do, and the measurement
// of the processes' resources. Packages crawl and peers decide what is compared.
package contest

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
	"sync/atomic"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/sync/errgroup"
)

// Endpoint is the address at which a site is served.
type Endpoint struct {
	Addr  string   // of the server
	Seeds []string // where a crawl begins
	Any   bool     // the server answers for all hosts, and they all belong to the site
	CA    string   // certificate to trust, as PEM; empty means the URLs are http
}

// Order describes a crawl of the bare loop.
type Order struct {
	Endpoint
	Workers int           // number of concurrent requests
	Delay   time.Duration // between the starts of two requests to a host; 0 allows many requests to a host at once
	Time    time.Duration // duration of the crawl; 0 means until no page is left
	// Lenient goes on after a request that failed, and accepts gzip.
	Lenient bool
}

// Links appends the links of a page to found, each once and without its fragment.
type Links func(body *bytes.Buffer, found []string) ([]string, error)

// obey decodes the order that this process received, calls crawl with the order, and
// prints the result.
func obey(ctx context.Context, order string, out io.Writer, crawl Crawl) error {
	var o Order
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return fmt.Errorf("loop over %q: %w", order, err)
	}
	took, err := crawl(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(took)
}

var errTimeOver = errors.New("the time is over")

// Loop crawls as fast as possible, with only net/http, a parser of links and a map. It
// ends when no page is left or the time is over. A comparison with it shows the cost of
// the crawler's guarantees. Loop ignores robots.txt and charsets, does not limit bodies,
// stores nothing on disk, and stops at the first error.
func Loop(ctx context.Context, order Order, links Links) (took Took, err error) {
	dialer := new(net.Dialer)
	l := &loop{Order: order, links: links, todo: newQueue(order.Seeds, order.Delay), transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, order.Addr)
		},
		MaxIdleConns: order.Workers, MaxIdleConnsPerHost: order.Workers, // with the default of 2, few connections would be used twice
		// Without this setting, the transport would request gzip. Decompressing takes
		// more time than sending more bytes over loopback.
		DisableCompression: !order.Lenient,
		ReadBufferSize:     64 << 10,
	}}
	defer l.transport.CloseIdleConnections()
	if order.CA != "" {
		trusted := x509.NewCertPool()
		if !trusted.AppendCertsFromPEM([]byte(order.CA)) {
			return took, errors.New("the site's authority has no certificate")
		}
		l.transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	began := time.Now()
	if order.Time > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, order.Time, errTimeOver)
		defer cancel()
		ctx = timed
	}
	group, within := errgroup.WithContext(ctx)
	defer context.AfterFunc(within, l.todo.close)()
	for range order.Workers {
		group.Go(func() error { return l.work(within) })
	}
	if err = group.Wait(); errors.Is(context.Cause(ctx), errTimeOver) {
		err = nil
	}
	return Took{Pages: l.pages.Load(), Seconds: time.Since(began).Seconds(), GC: gcShare()}, err
}

// gcShare returns the share of this process's processor time that garbage collection
// took so far, as the runtime estimates it.
func gcShare() float64 {
	classes := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(classes)
	return classes[0].Value.Float64() / max(classes[1].Value.Float64()-classes[2].Value.Float64(), 1e-9)
}

type loop struct {
	Order
	links     Links
	todo      *queue
	transport *http.Transport
	pages     atomic.Uint64
}

// work fetches pages until none is left.
func (l *loop) work(ctx context.Context) (err error) {
	var body bytes.Buffer
	var references, found []string
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
		if err != nil && (!l.Lenient || ctx.Err() != nil) {
			return err
		}
		found = found[:0]
		switch {
		case target != nil:
			found = l.follow(found, target)
		case isHTML:
			l.pages.Add(1)
			if references, err = l.links(&body, references[:0]); err != nil {
				return fmt.Errorf("%s: %w", page, err)
			}
			for _, reference := range references {
				if target, err := base.Parse(reference); err == nil {
					found = l.follow(found, target)
				}
			}
		}
		l.todo.put(page, found)
	}
}

// fetch reads a page into body. If the page is a redirect, target is its destination.
func (l *loop) fetch(ctx context.Context, page *url.URL, body *bytes.Buffer) (isHTML bool, target *url.URL, err error) {
	request := (&http.Request{Method: http.MethodGet, URL: page, Header: make(http.Header, 1)}).WithContext(ctx)
	response, err := l.transport.RoundTrip(request) // a Client would add cookies, timers and redirects
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

// follow appends target to urls if target belongs to the site.
func (l *loop) follow(urls []string, target *url.URL) []string {
	target.Fragment = ""
	scheme := "http"
	if l.CA != "" {
		scheme = "https"
	}
	if target.Scheme == scheme && (l.Any || target.Host == l.Addr) {
		urls = append(urls, target.String())
	}
	return urls
}

// tokens finds links with html.Tokenizer, without a tree of the page.
func tokens(body *bytes.Buffer, found []string) ([]string, error) {
	known := make(map[string]bool)
	for z := html.NewTokenizer(body); ; {
		switch z.Next() {
		case html.ErrorToken:
			return found, nil
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
				if !known[string(value)] {
					reference := string(value)
					known[reference], found = true, append(found, reference)
				}
				break
			}
		}
	}
}
