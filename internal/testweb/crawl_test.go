package testweb

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jimsmart/grobotstxt"
	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"
)

// reference is a small correct crawler that uses parsers of other projects. It requests
// one URL at a time. It runs under a fake clock, so that delays take no time.
type reference struct {
	t       *testing.T
	web     *Web
	delay   time.Duration
	records *bytes.Buffer
	encoder *json.Encoder
	queue   []string
	seen    map[string]bool
	robots  map[string]string        // robots.txt by host
	due     map[string]time.Time     // earliest time of the next request, by host
	delays  map[string]time.Duration // by host
	tries   map[string]int
}

func crawl(t *testing.T, w *Web, delay time.Duration) *bytes.Buffer {
	t.Helper()
	out := &bytes.Buffer{}
	c := &reference{
		t: t, web: w, delay: delay, records: out, encoder: json.NewEncoder(out), seen: map[string]bool{},
		robots: map[string]string{}, due: map[string]time.Time{}, delays: map[string]time.Duration{}, tries: map[string]int{},
	}
	for _, seed := range w.Seeds() {
		c.add(seed)
	}
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.visit(next)
	}
	return out
}

func (c *reference) add(url string) {
	if !c.seen[url] {
		c.seen[url] = true
		c.queue = append(c.queue, url)
	}
}

func (c *reference) record(fields map[string]any) {
	if err := c.encoder.Encode(fields); err != nil {
		c.t.Fatal(err)
	}
}

func (c *reference) visit(url string) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, c.web.scheme+"://"), "/")
	if !c.allowed(host, url) {
		c.record(map[string]any{"url": url, "outcome": "robots", "status": 0})
		return
	}
	response, body := c.get(host, url)
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	if status == 0 || status >= 500 || status == http.StatusTooManyRequests {
		c.retry(url, host, response, status)
		return
	}
	switch {
	case status >= 400:
		c.record(map[string]any{"url": url, "outcome": "client_error", "status": status})
	case status >= 300:
		to := canonical(url, response.Header.Get("Location"))
		c.add(to)
		c.record(map[string]any{"url": url, "outcome": "redirect", "status": status, "redirect_to": to})
	case !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html"):
		c.record(map[string]any{"url": url, "outcome": "type", "status": status})
	default:
		c.read(url, body)
	}
}

// retry queues a URL that failed. After four attempts, it records the URL as failed
// instead.
func (c *reference) retry(url, host string, response *http.Response, status int) {
	if c.tries[url]++; c.tries[url] < 4 {
		c.queue = append(c.queue, url)
		if response != nil {
			c.due[host] = latest(c.due[host], time.Now().Add(retryAfterOf(response)))
		}
		return
	}
	outcome := "server_error"
	if status == 0 {
		outcome = "network"
	}
	c.record(map[string]any{"url": url, "outcome": outcome, "status": status})
}

func retryAfterOf(response *http.Response) time.Duration {
	header := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if until, err := http.ParseTime(header); err == nil {
		return time.Until(until)
	}
	return 0
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *reference) read(url string, body []byte) {
	isCut := int64(len(body)) > c.web.cfg.MaxBodyBytes
	if isCut {
		body = body[:c.web.cfg.MaxBodyBytes]
	}
	title, links := extract(body)
	base := url
	for _, link := range links {
		if link.isBase {
			base = canonical(url, link.href)
		} else if to := canonical(base, link.href); to != "" {
			c.add(to)
		}
	}
	c.record(map[string]any{
		"url": url, "outcome": "ok", "status": 200, "title": title, "truncated": isCut,
		"digest": fmt.Sprintf("sha256:%x", sha256.Sum256(body)),
	})
}

func (c *reference) allowed(host, url string) bool {
	rules, known := c.robots[host]
	if !known {
		response, body := c.get(host, c.web.scheme+"://"+host+"/robots.txt")
		if response != nil && response.StatusCode == http.StatusOK {
			rules = string(body)
		}
		c.robots[host] = rules
		c.delays[host] = c.delay
		if _, seconds, found := strings.Cut(rules, "Crawl-delay: "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64)
			if err != nil {
				c.t.Errorf("robots.txt of %s: %v", host, err)
			}
			c.delays[host] = max(c.delay, time.Duration(value*float64(time.Second)))
		}
	}
	return grobotstxt.AgentAllowed(rules, "crawler", url)
}

// get waits until host is due, and then requests url. A nil response means that the
// server broke the connection.
func (c *reference) get(host, url string) (response *http.Response, body []byte) {
	time.Sleep(time.Until(c.due[host]))
	c.due[host] = time.Now().Add(max(c.delay, c.delays[host]))
	return fetch(c.t, c.web, url)
}

// fetch requests url without a network. A nil response means that the server broke
// the connection.
func fetch(t *testing.T, w *Web, url string) (response *http.Response, body []byte) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, url, nil)
	request.RequestURI = strings.TrimPrefix(url, w.scheme+"://"+request.Host)
	request.Header.Set("Accept-Encoding", "gzip")
	recorder := httptest.NewRecorder()
	defer func() {
		if fault := recover(); fault == http.ErrAbortHandler {
			response, body = nil, nil
		} else if fault != nil {
			panic(fault)
		}
	}()
	w.Handler().ServeHTTP(recorder, request)
	response = recorder.Result()
	var in io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		in = unpacked
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

type href struct {
	href   string
	isBase bool
}

// extract returns the title of a page, and its links and <base> elements in the order
// of the page.
func extract(body []byte) (title string, links []href) {
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return title, links
		case html.StartTagToken:
			token := z.Token()
			switch token.Data {
			case "title":
				z.Next()
				title = string(z.Text())
			case "a", "base":
				for _, a := range token.Attr {
					if a.Key == "href" {
						links = append(links, href{a.Val, token.Data == "base"})
					}
				}
			}
		}
	}
}

// normalized brings the percent-encodings that the web uses to their normal form.
var normalized = strings.NewReplacer("%7E", "~", "%7e", "~", "%61", "a", "%72", "r", "%c3%a9", "%C3%A9", "%C3%a9", "%C3%A9")

// canonical resolves ref and returns its canonical form. It returns "" if the result is
// not an http or https URL.
func canonical(base, ref string) string {
	parsed, err := url.ParseRef(base, ref)
	if err != nil || parsed.Scheme() != "http" && parsed.Scheme() != "https" {
		return ""
	}
	path := normalized.Replace(parsed.Pathname())
	kept := slices.DeleteFunc(strings.Split(strings.TrimPrefix(parsed.Search(), "?"), "&"), func(parameter string) bool {
		return parameter == "" || strings.HasPrefix(parameter, "utm_") || strings.HasPrefix(parameter, "gclid=") || strings.HasPrefix(parameter, "fbclid=")
	})
	query := ""
	if len(kept) > 0 {
		query = "?" + strings.Join(kept, "&")
	}
	return parsed.Scheme() + "://" + parsed.Host() + path + query
}

// TestReferenceCrawl crawls webs of several sizes with the reference crawler. The
// crawler must find every page with the expected outcome, and the judge must find no
// fault.
func TestReferenceCrawl(t *testing.T) {
	for _, cfg := range []Config{
		{Hosts: 1, Pages: 1},
		{Hosts: 1, Pages: 100, Hardships: All},
		{Hosts: 7, Pages: 7, Hardships: All},
		{Hosts: 20, Pages: 1000, MeanLinks: -1},
		{Hosts: 300, Pages: 4000, MeanLinks: 5},
		{Hosts: 70, Pages: 2000, Hardships: All},
		{Hosts: 70, Pages: 2000, Hardships: All, TLS: true, Latency: 300 * time.Millisecond, LatencySpread: 0.8},
		{Hosts: 8, Pages: 900, Mix: MixWeb, TLS: true},
	} {
		cfg.Seed, cfg.MeanBytes, cfg.MaxBodyBytes, cfg.KeepLog = *seed, 1500, 128<<10, true
		t.Run(fmt.Sprintf("hosts=%d/pages=%d/hardships=%v/tls=%t", cfg.Hosts, cfg.Pages, cfg.Hardships, cfg.TLS), func(t *testing.T) {
			t.Logf("replay with -seed=%d", *seed)
			synctest.Test(t, func(t *testing.T) { // fake clock: politeness takes no time
				w := newWeb(t, cfg)
				records := crawl(t, w, time.Second)
				report, err := w.Compare(records)
				if err == nil {
					err = report.Err()
				}
				if err != nil {
					t.Errorf("faults in the records: %v", err)
				}
				if report.Records != report.Expected {
					t.Errorf("%d records, want %d", report.Records, report.Expected)
				}
				verdict := w.Judge(w.Log(), Manners{Delay: time.Second})
				if err := verdict.Err(); err != nil {
					t.Errorf("faults of politeness: %v", err)
				}
				if verdict.Refetched > 0 {
					t.Errorf("%d refetches, want none", verdict.Refetched)
				}
			})
		})
	}
}
