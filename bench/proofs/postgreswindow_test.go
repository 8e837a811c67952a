package proofs

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// window is the time for which finished seeds count as seen in these tests.
const window = 2 * time.Second

const (
	pageURL = "http://page.test/"
	slowURL = "http://slow.test/"
)

// slowSite is a web of two pages. The slow page is answered only after the channel free
// is closed.
type slowSite struct {
	addr  string
	begun chan struct{} // closed when the slow page is requested
	free  chan struct{} // closed by the test

	mu    sync.Mutex
	asked map[string][]time.Time // times of the requests, by URL
}

func serveSlow(t *testing.T) *slowSite {
	t.Helper()
	s := &slowSite{begun: make(chan struct{}), free: make(chan struct{}), asked: make(map[string][]time.Time)}
	begun := sync.OnceFunc(func() { close(s.begun) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		url := "http://" + r.Host + r.URL.Path
		if url != pageURL && url != slowURL {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		s.asked[url] = append(s.asked[url], time.Now())
		s.mu.Unlock()
		if url == slowURL {
			begun()
			_ = await(r.Context(), s.free)
		}
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.addr = server.Listener.Addr().String()
	return s
}

// requests returns the times of the requests for a URL.
func (s *slowSite) requests(url string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked[url]...)
}

// TestPostgresWindow repeatedly offers two seeds with a short window. One of them must
// be fetched again, in a new round, each time its window is over, and not earlier. The
// first request for the other seed takes longer than the window. Until this request has
// ended, no other request for this seed is allowed, because its window has not begun.
func TestPostgresWindow(t *testing.T) {
	t.Parallel()
	web := serveSlow(t)
	r := newExactCrawl(t, rand.New(rand.NewPCG(1, 1)), "--scope", "any", "--connect-to", "*="+web.addr, "--partitions", "16", "--urls", "1000",
		"--delay", "10ms", "--header-timeout", "1h", "--timeout", "1h", "--lease-time", ms(lossLease), "--log-level", "warn", "--exact", "seeds", "--window", "seeds="+ms(window), pageURL, slowURL)
	before := 0 // requests for the slow page until it was answered
	r.trouble = func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience())
		defer cancel()
		answer := sync.OnceFunc(func() { close(web.free) })
		defer answer()
		if err := await(ctx, web.begun); err != nil {
			return err
		}
		for len(web.requests(pageURL)) < sized(3, 10) {
			if e := r.ask("seed", pageURL, slowURL); e.code != 0 {
				return errors.New(e.stderr)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		before = len(web.requests(slowURL))
		return nil
	}
	r.run(1)
	r.trouble = nil
	for until := time.Now().Add(patience()); len(web.requests(slowURL)) < 2; r.run(1) { // each run offers the seeds
		if time.Now().After(until) {
			t.Fatalf("%s was not requested again within %v", slowURL, patience())
		}
	}

	if before != 1 {
		t.Errorf("the slow page was requested %d times before it was answered, want once", before)
	}
	rounds := make(map[string]map[uint32]bool)
	lines := parse(t, r.export())
	for _, l := range lines {
		if rounds[l.URL] == nil {
			rounds[l.URL] = make(map[uint32]bool)
		}
		rounds[l.URL][l.Round] = true
	}
	for _, url := range []string{pageURL, slowURL} {
		asked := web.requests(url)
		if len(rounds[url]) != len(asked) {
			t.Errorf("%s has records of %d rounds, want one for each of %d requests", url, len(rounds[url]), len(asked))
		}
		for i := range asked[1:] {
			if gap := asked[i+1].Sub(asked[i]); gap < window {
				t.Errorf("%s was fetched again after %v, want %v or more", url, gap, window)
			}
		}
		figure(t, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), ".test/"), "%d requests in %v", len(asked), asked[len(asked)-1].Sub(asked[0]).Round(time.Millisecond))
	}
	checkOutcomes(t, r.stats(), lines)
	if audit := r.audit(); audit.code != 0 {
		t.Errorf("the audit has exit code %d, want 0:\n%s", audit.code, audit.text)
	}
}

// TestPostgresRetryAfterWindow checks `crawler retry` for a seed that failed in round 0. After
// its window, the seed is offered again and fetched with success in round 1. A retry of the
// item that failed in round 0 would also be in round 1, which already has a record. So
// `crawler retry` must not queue this item. This must also hold after a relay has deleted the
// key of the seed in Postgres.
func TestPostgresRetryAfterWindow(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/":
			http.NotFound(w, r)
		case requests.Add(1) == 1:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "text/html")
		}
	}))
	t.Cleanup(server.Close)
	r := newExactCrawl(t, rand.New(rand.NewPCG(1, 1)), "--scope", "any", "--connect-to", "*="+server.Listener.Addr().String(), "--partitions", "16",
		"--urls", "1000", "--delay", "10ms", "--retries", "0", "--log-level", "warn", "--exact", "seeds", "--window", "seeds="+ms(window), pageURL)
	r.run(1)
	// Now no worker runs, so no relay deletes the key of the seed. Therefore the next round of
	// the seed is round 1.
	for until := time.Now().Add(patience()); !strings.Contains(r.ask("seed", pageURL).stdout, "1 added"); {
		if time.Now().After(until) {
			t.Fatalf("%s was not new again within %v", pageURL, patience())
		}
	}
	r.run(1)
	for range 3 {
		if e := r.ask("retry"); e.code != 0 {
			t.Errorf("retry has exit code %d: %s", e.code, e.stderr)
		}
		r.run(1)
	}
	if lines := parse(t, r.export()); len(lines) != int(requests.Load()) {
		t.Errorf("the export has %d records, want one for each of %d requests", len(lines), requests.Load())
	}
	if audit := r.audit(); audit.code != 0 {
		t.Errorf("the audit has exit code %d, want 0:\n%s", audit.code, audit.text)
	}
}
