package testweb

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// find returns the first page whose fate has the given name.
func find(t *testing.T, w *Web, fate string) page {
	t.Helper()
	var found *page
	w.each(func(to target) bool {
		if to.kind == aPage && w.fateOf(to.page).name == fate {
			found = &to.page
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("no page has the fate %q", fate)
	}
	return *found
}

// TestFateOfEachPage requests a page of each fate, which is a kind of behaviour, several
// times. The statuses of the answers must be those of the fate.
func TestFateOfEachPage(t *testing.T) {
	for _, c := range []struct {
		fate   string
		status []int // of the answers in turn; 0 means a broken connection
	}{
		{"plain", []int{200, 200}},
		{"Not Found", []int{404, 404}},
		{"Gone", []int{410}},
		{"Forbidden", []int{403}},
		{"5xx for ever", []int{500, 500, 500, 500, 500}},
		{"closed for ever", []int{0, 0, 0, 0, 0}},
		{"reset at first", []int{0, 0, 200, 200}},
		{"body cut at first", []int{0, 200, 200}},
		{"disallowed", []int{200}},
		{"application/pdf", []int{200}},
		{"image/png", []int{200}},
		{"huge", []int{200}},
	} {
		t.Run(c.fate, func(t *testing.T) {
			w := hard(t, All&^(Latency|Slow))
			url := w.url(target{kind: aPage, page: find(t, w, c.fate)})
			for try, want := range c.status {
				response, _ := fetch(t, w, url)
				got := 0
				if response != nil {
					got = response.StatusCode
				}
				if got != want {
					t.Errorf("request %d for %s: status %d, want %d", try+1, url, got, want)
				}
				log := w.Log()
				if logged := log[len(log)-1].Status; logged != want && c.fate != "body cut at first" {
					t.Errorf("request %d for %s: status %d in the log, want %d", try+1, url, logged, want)
				}
			}
		})
	}
}

// TestFailsAsOftenAsItSays requests each page that fails at first, and checks its number
// of failures.
func TestFailsAsOftenAsItSays(t *testing.T) {
	w, passing := hard(t, ServerErrors|Throttling|Resets), map[int]int{} // pages by number of failures
	w.each(func(to target) bool {
		if f := w.fateOf(to.page); f.fails > 0 && f.fails < forever {
			passing[f.fails]++
			for try := range f.fails + 1 {
				response, _ := fetch(t, w, w.url(to))
				isGood := response != nil && response.StatusCode == http.StatusOK
				if isGood != (try == f.fails) {
					t.Errorf("answer %d of a page with the fate %q is good: %t, want %t", try+1, f.name, isGood, try == f.fails)
				}
			}
		}
		return true
	})
	for fails := 1; fails <= 3; fails++ {
		if passing[fails] == 0 {
			t.Errorf("no page fails exactly %d times", fails)
		}
	}
}

// TestHostsFailSeldom checks that no living host breaks ten connections, and that pages
// that fail on purpose are rare even on small hosts.
func TestHostsFailSeldom(t *testing.T) {
	w := hard(t, All)
	for host := range w.shape.hosts() {
		failures, slots := 0, 0
		for index := range w.shape.size(host) {
			if f := w.fateOf(page{host, index}); f.outcome == "network" || strings.Contains(f.name, "cut") || strings.Contains(f.name, "reset") || strings.Contains(f.name, "closed at") {
				failures += min(f.fails, 4)
			}
			if _, isSlot := w.slotOf(page{host, index}); isSlot {
				slots++
			}
		}
		if failures > 9 {
			t.Errorf("host %d breaks %d connections, want fewer than 10", host, failures)
		}
		if n := w.shape.size(host); slots > (n+6)/8 {
			t.Errorf("%d of the %d pages of host %d have slots, want at most one in eight", slots, n, host)
		}
	}
}

// TestRacersSeeEachFailureOnce checks that a page also fails the right number of times if
// many clients request it at once.
func TestRacersSeeEachFailureOnce(t *testing.T) {
	w := hard(t, Throttling|ServerErrors)
	p := find(t, w, "5xx at first")
	var failed atomic.Int32
	var racers sync.WaitGroup
	for range 16 {
		racers.Go(func() {
			if response, _ := fetch(t, w, w.url(target{kind: aPage, page: p})); response.StatusCode != http.StatusOK {
				failed.Add(1)
			}
		})
	}
	racers.Wait()
	if want := w.fateOf(p).fails; int(failed.Load()) != want {
		t.Errorf("%d of 16 concurrent requests failed, want %d", failed.Load(), want)
	}
	for i, r := range w.Log() {
		if r.Attempt != i+1 || i > 0 && r.Start < w.Log()[i-1].Start {
			t.Errorf("request %d in the log is %+v, want attempt %d, started no earlier than the request before it", i, r, i+1)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	w, forms := hard(t, Throttling), map[bool]int{}
	w.each(func(to target) bool {
		if w.fateOf(to.page).name != "throttled at first" {
			return true
		}
		response, _ := fetch(t, w, w.url(to))
		wait := retryAfterOf(response)
		if wait <= 0 || wait > retryAfter {
			t.Errorf("Retry-After of %s is %v, want more than 0 and at most %v", w.url(to), wait, retryAfter)
		}
		forms[strings.HasSuffix(response.Header.Get("Retry-After"), "GMT")]++
		return true
	})
	if forms[true] == 0 || forms[false] == 0 {
		t.Errorf("Retry-After was %d times in seconds and %d times a date, want both forms", forms[false], forms[true])
	}
	log := w.Log()
	if last := log[len(log)-1]; last.RetryAfter <= 0 || last.Attempt != 1 {
		t.Errorf("the last request in the log is %+v, want attempt 1 with a RetryAfter", last)
	}
}

func TestChainsOfRedirects(t *testing.T) {
	w := hard(t, Redirects|Spellings)
	lengths, statuses := map[int]int{}, map[int]int{}
	var loops, selves, crossing int
	w.each(func(to target) bool {
		if to.kind != aHop {
			return true
		}
		response, _ := fetch(t, w, w.url(to))
		e, _ := w.Expect(w.url(to))
		if got := canonical(e.URL, response.Header.Get("Location")); got != e.RedirectTo || response.StatusCode != e.Status {
			t.Errorf("%s answers %d and leads to %s, want %d and %s", e.URL, response.StatusCode, got, e.Status, e.RedirectTo)
		}
		statuses[e.Status]++
		if c := w.chainOf(to.page); to.part == c.hops-1 {
			lengths[c.hops]++
			if c.loops {
				loops++
			}
			if e.RedirectTo == e.URL {
				selves++
			}
			if w.hostOf(to) != to.page.host {
				crossing++
			}
		}
		return true
	})
	if len(lengths) != maxHops || len(statuses) != len(redirectStatuses) || loops == 0 || selves == 0 || crossing == 0 {
		t.Errorf("redirects: lengths %v, statuses %v, %d loops, %d to themselves, %d across hosts; want all kinds",
			lengths, statuses, loops, selves, crossing)
	}
}

// TestTimeAndBytes counts the pages that are late, slow, compressed, huge or deep. It
// runs under a fake clock.
func TestTimeAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hard(t, Latency|Slow|Gzip|Huge|Deep)
		var late, slowly, packed, huge, deep int
		w.each(func(to target) bool {
			began := time.Now()
			response, body := fetch(t, w, w.url(to))
			switch took := time.Since(began); {
			case took >= 7*25*time.Millisecond:
				slowly++
			case took >= 10*time.Millisecond:
				late++
			}
			if response.Header.Get("Content-Encoding") == "gzip" {
				packed++
			}
			if int64(len(body)) == w.hugeBytes() {
				huge++
			}
			if strings.Count(string(body), "<div>") == deepElements {
				deep++
			}
			return true
		})
		for name, c := range map[string]struct{ got, low, high int }{
			"late": {late, 500, 2000}, "slow": {slowly, 5, 40}, "compressed": {packed, 800, 1200},
			"huge": {huge, 1, 8}, "deep": {deep, 5, 80}, // of 4,000 pages; 500 of them have child pages
		} {
			if c.got < c.low || c.got > c.high {
				t.Errorf("%d pages are %s, want %d to %d", c.got, name, c.low, c.high)
			}
		}
	})
}

func TestRobotsKinds(t *testing.T) {
	w, disallowed := hard(t, Robots), 0
	for host := range 8 {
		status, body := w.robotsAnswer(host)
		response, got := fetch(t, w, "http://"+hostName(host)+"/robots.txt")
		if response.StatusCode != status || string(got) != body {
			t.Errorf("robots.txt of host %d has status %d and body %q, want %d and %q", host, response.StatusCode, got, status, body)
		}
	}
	for e := range w.Expected() {
		if e.Outcome == "robots" {
			disallowed++
		}
	}
	if disallowed < 50 {
		t.Errorf("%d of 4,000 pages are disallowed, want 50 or more", disallowed)
	}
	if status, _ := newWeb(t, Config{}).robotsAnswer(0); status != http.StatusNotFound {
		t.Errorf("robots.txt of a web without hardships has status %d, want 404", status)
	}
}

// TestOnTheWire tests resets, closed connections, incomplete bodies and the end of
// Serve over real connections.
func TestOnTheWire(t *testing.T) {
	w := hard(t, All&^(Latency|Slow))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // net/http repeats a request if a reused connection breaks
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		},
	}}
	get := func(url string) error {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
		return err
	}
	for _, c := range []struct {
		url  string
		want error
	}{
		{w.url(target{kind: aPage}), nil},
		{w.url(target{kind: aPage, page: find(t, w, "huge")}), nil},
		{w.url(target{kind: aPage, page: find(t, w, "reset at first")}), syscall.ECONNRESET},
		{w.url(target{kind: aPage, page: find(t, w, "closed for ever")}), io.EOF},
		{w.url(target{kind: aPage, page: find(t, w, "body cut at first")}), io.ErrUnexpectedEOF},
		{w.url(target{kind: aDeadPage}), syscall.ECONNRESET},
		{"http://" + deadName(0) + "/robots.txt", syscall.ECONNRESET},
		{"http://nowhere.test/", nil},
	} {
		if err := get(c.url); !errors.Is(err, c.want) {
			t.Errorf("%s gives %v, want %v", c.url, err, c.want)
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

// discard is a ResponseWriter that only counts the bytes of bodies.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) reset() {
	d.bytes = 0
	if d.header == nil {
		d.header = http.Header{}
	}
	clear(d.header)
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

func benchRequests(w *Web) (requests []*http.Request) {
	w.each(func(to target) bool {
		if to.kind == aPage {
			url := w.url(to)
			request := httptest.NewRequest(http.MethodGet, url, nil)
			request.RequestURI = strings.TrimPrefix(url, "http://"+request.Host)
			requests = append(requests, request)
		}
		return len(requests) < 4096
	})
	return requests
}
