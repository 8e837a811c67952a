package fetcher_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// logLines is a log that can be read while it is written.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// wants checks how often the log has each text.
func (l *logLines) wants(t *testing.T, times map[string]int) {
	t.Helper()
	for text, n := range times {
		if got := strings.Count(l.String(), text); got != n {
			t.Errorf("the log has %q %d times, want %d:\n%s", text, got, n, l)
		}
	}
}

// refused is the error of a connection to a port without a server.
var refused = reply{broken: &net.OpError{
	Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, Err: syscall.ECONNREFUSED,
}}

// refusedText is the text of the error in refused, as the crawler shows it. The text begins
// with "request" and not with "connect", because a wire has no sockets to connect.
const refusedText = "request: dial tcp 127.0.0.1:7: connection refused"

// down returns a wire (a network without sockets) on which the first requests for the
// robots.txt of each host fail. The argument times is the number of these requests.
func down(bad reply, times int) *wire {
	return &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
		return bad, strings.HasSuffix(url, "/robots.txt") && try < times
	}}
}

// inBackground runs c and returns a function that waits for its end.
func inBackground(t *testing.T, c *fetcher.Crawl) (wait func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context())
		ended <- err
	}()
	return func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	}
}

// TestFailureNamesItsCause: the first failure of a robots.txt is counted. The cause of the
// failure is in Progress with the host, in the store, in the records, and once in the log.
func TestFailureNamesItsCause(t *testing.T) {
	for _, test := range []struct {
		name  string
		bad   reply
		cause string
	}{
		{"refused", refused, refusedText},
		{"status", status(503), "status 503"},
		{"broken", reply{broken: errBroken}, "request: connection broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logLines
				w := newWorld(t, down(test.bad, 1000))
				cfg := w.config()
				store := &lastBlob{Memory: w.store}
				cfg.Store, cfg.Logger = store, log.logger()
				c := w.worker(cfg)
				w.seed(c, "http://a.test/1", "http://a.test/2")
				wait := inBackground(t, c)
				time.Sleep(2 * time.Second)
				p := c.Progress()
				if p.Errors != 1 || p.LastError == nil || p.LastError.Host != "a.test" || p.LastError.Error != "robots.txt: "+test.cause {
					t.Errorf("after the first failure: %d errors, want 1; the last error is %+v, want %q",
						p.Errors, p.LastError, test.cause)
				}
				if p.Answered || !p.Stuck || p.BackingOff != 1 || p.NextTry <= 0 || p.NextTry > 15*time.Second {
					t.Errorf("after the first failure: answered %t, stuck %t, %d hosts back off, the first for %v",
						p.Answered, p.Stuck, p.BackingOff, p.NextTry)
				}
				state, err := fetcher.RobotsOf(store.last(), "http://a.test", "crawler", time.Now())
				if err != nil || state == nil || state.Cause() != test.cause {
					t.Errorf("the store has %+v (%v), want the cause %q", state, err, test.cause)
				}
				wait()
				log.wants(t, map[string]int{`msg="robots.txt failed"`: 1, `err="` + test.cause + `"`: 1, "answers again": 0})
				if p := c.Progress(); p.Errors != 4 || p.Pages != 0 || p.Finished != 0 || p.BackingOff != 0 {
					t.Errorf("at the end: %+v, want 4 errors, no page and no host that backs off", p)
				}
				c.Hosts(func(hosts fetcher.HostCounts) {
					if top := hosts.Errors.Top(1); len(top) != 1 || top[0].Count != 4 || hosts.Causes["a.test"] != "robots.txt: "+test.cause {
						t.Errorf("hosts with errors: %+v, causes %v", top, hosts.Causes)
					}
				})
				want := "robots.txt: 4 attempts failed: " + test.cause
				if got := w.sink.recordOf(t, "http://a.test/2"); got.Error != want || got.Outcome != string(frontier.Network) {
					t.Errorf("record %+v, want the error %q", got, want)
				}
			})
		})
	}
}

// lastBlob is a store that keeps the last blob that a worker stored for a host.
type lastBlob struct {
	*frontiertest.Memory
	mu   sync.Mutex
	blob []byte
}

func (s *lastBlob) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, host frontier.HostUpdate) error {
	s.mu.Lock()
	if host.Blob != nil {
		s.blob = host.Blob
	}
	s.mu.Unlock()
	return s.Memory.Complete(ctx, id, done, host)
}

func (s *lastBlob) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blob
}

// TestOutageEnds: a worker logs the end of an outage once, even if only another worker saw
// the beginning of the outage.
func TestOutageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second logLines
		w := newWorld(t, down(refused, 3))
		cfg := w.config()
		cfg.Logger = first.logger()
		c := w.worker(cfg)
		w.seed(c, "http://a.test/1", "http://a.test/2")
		stop, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if end, err := c.Run(stop); end != fetcher.Stopped || err != nil {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		cfg.Logger = second.logger()
		w.crawl(cfg)
		first.wants(t, map[string]int{`msg="robots.txt failed"`: 1, "answers again": 0})
		second.wants(t, map[string]int{`msg="robots.txt failed"`: 0, `msg="robots.txt answers again"`: 1})
		if done := w.stats().Outcomes[frontier.OK]; done != 2 {
			t.Errorf("%d pages, want 2", done)
		}
	})
}

// TestHostOutage: if robots.txt is ignored, the requests for pages decide whether a host
// answers. The cause is in the log once, in the store, and in the records of a host that
// the crawl has given up.
func TestHostOutage(t *testing.T) {
	for _, failures := range []int{2, 1000} {
		synctest.Test(t, func(t *testing.T) {
			var log logLines
			requests := 0
			w := newWorld(t, &wire{answer: func(*http.Request, string, int) (reply, bool) {
				requests++
				return refused, requests <= failures
			}})
			cfg := w.config()
			store := &lastBlob{Memory: w.store}
			cfg.Store, cfg.Logger = store, log.logger()
			cfg.Politeness.DeadAfter = 3
			cfg.IgnoreRobots = true
			c := w.worker(cfg)
			w.seed(c, "http://a.test/1", "http://a.test/2")
			wait := inBackground(t, c)
			time.Sleep(time.Second / 2) // after the first attempt
			if cause, err := fetcher.CauseOf(store.last()); cause != refusedText || err != nil {
				t.Errorf("the store has the cause %q (%v), want %q", cause, err, refusedText)
			}
			wait()
			again := 0
			if failures == 2 {
				again = 1
			} else if got := w.sink.recordOf(t, "http://a.test/2").Error; got != "the host answers no more: "+refusedText {
				t.Errorf("the record of a dead host has the error %q", got)
			}
			log.wants(t, map[string]int{`msg="host does not answer"`: 1, `msg="host answers again"`: again, refusedText: 1})
			if p := c.Progress(); p.Pages != w.stats().Pages {
				t.Errorf("the worker counts %d pages, the store %d", p.Pages, w.stats().Pages)
			}
		})
	}
}

// TestLonelyFailureIsNoOutage: the failure of one page of a host that answers
// is not logged.
func TestLonelyFailureIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		slow := func(r reply) reply { r.wait = time.Millisecond; return r }
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			switch {
			case strings.HasSuffix(url, "/bad"):
				return slow(reply{broken: errBroken}), true
			case strings.HasSuffix(url, "/robots.txt"):
				return slow(status(404)), true
			}
			return slow(reply{}), true
		}})
		cfg := w.config()
		cfg.Logger = log.logger()
		var seeds []string
		for i := range 20 {
			seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i))
		}
		cfg.Retries = 1
		w.crawl(cfg, append([]string{"http://a.test/bad"}, seeds...)...)
		log.wants(t, map[string]int{"WARN": 0})
	})
}

// TestDeadHostsBackOff: hosts in back-off are counted. A host that waits for its
// delay is not counted.
func TestDeadHostsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(r *http.Request, _ string, _ int) (reply, bool) {
			return refused, strings.HasPrefix(r.URL.Host, "dead")
		}})
		c := w.worker(w.config())
		seeds := []string{"http://good.test/1", "http://good.test/2", "http://good.test/3", "http://good.test/4"}
		for i := range 10 {
			seeds = append(seeds, fmt.Sprintf("http://dead%d.test/", i))
		}
		w.seed(c, seeds...)
		wait := inBackground(t, c)
		time.Sleep(1500 * time.Millisecond)
		if p := c.Progress(); p.BackingOff != 10 || p.Stuck || !p.Answered {
			t.Errorf("%d hosts back off, stuck %t, answered %t, want 10, false, true", p.BackingOff, p.Stuck, p.Answered)
		}
		wait()
	})
}

// shaky is a store whose Lease sometimes returns frontier.ErrUnavailable.
type shaky struct {
	*frontiertest.Memory
	down func(now time.Time) bool
}

func (s shaky) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	if s.down(time.Now()) {
		return frontier.Grant{}, fmt.Errorf("dial: %w", frontier.ErrUnavailable)
	}
	return s.Memory.Lease(ctx, request)
}

// TestStoreOutageIsLoggedOnce: each outage of the store is logged once, even if many calls
// fail.
func TestStoreOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		w := newWorld(t, pages(nil))
		cfg := w.config()
		cfg.Logger = log.logger()
		begun := time.Now()
		cfg.Store = shaky{w.store, func(now time.Time) bool {
			at := now.Sub(begun)
			return at < time.Minute || at > 2*time.Minute && at < 3*time.Minute
		}}
		c := w.worker(cfg)
		var seeds []string
		for i := range 200 {
			seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i))
		}
		w.seed(c, seeds...)
		inBackground(t, c)()
		log.wants(t, map[string]int{`msg="store unavailable"`: 2, `msg="store answers again"`: 2})
	})
}

// TestMachineOutageIsLoggedOnce: an outage of the machine is logged once, not
// for each page or host.
func TestMachineOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		begun := time.Now()
		w := newWorld(t, &wire{answer: func(*http.Request, string, int) (reply, bool) {
			return reply{broken: fmt.Errorf("%w: 127.0.0.1:3128: connection refused", get.ErrProxy)}, time.Since(begun) < time.Minute
		}})
		cfg := w.config()
		cfg.Logger = log.logger()
		cfg.IgnoreRobots = true
		cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "c.test", IgnoreRobots: new(bool)})
		c := w.worker(cfg)
		w.seed(c, "http://a.test/", "http://b.test/", "http://c.test/")
		wait := inBackground(t, c)
		time.Sleep(time.Second)
		if p := c.Progress(); !p.Stuck || p.Answered || p.LastError == nil || p.LastError.Host != "" || !strings.Contains(p.LastError.Error, "3128") {
			t.Errorf("stuck %t, answered %t, last error %+v, want true, false, an error of the proxy",
				p.Stuck, p.Answered, p.LastError)
		}
		wait()
		log.wants(t, map[string]int{`msg="this machine cannot make requests"`: 1, `msg="this machine can make requests again"`: 1, `msg="robots.txt failed"`: 0})
	})
}

// TestMachineStaysDown: an answer over a connection that was made before an outage of
// the machine does not end the outage for the hosts that wait.
func TestMachineStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := newWorld(t, &wire{answer: func(r *http.Request, _ string, _ int) (reply, bool) {
			switch r.URL.Host {
			case "c.test":
				time.Sleep(time.Second)
				return reply{}, false
			case "d.test": // so that the last error is not an error of the machine
				time.Sleep(2 * time.Second)
				return reply{broken: syscall.ECONNRESET}, true
			}
			return reply{broken: fmt.Errorf("%w: 127.0.0.1:3128: connection refused", get.ErrProxy)}, time.Since(begun) < time.Minute
		}})
		cfg := w.config()
		cfg.Retries = 0
		cfg.IgnoreRobots = true
		c := w.worker(cfg)
		w.seed(c, "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
		wait := inBackground(t, c)
		time.Sleep(3 * time.Second)
		if p := c.Progress(); p.Pages != 1 || !strings.Contains(p.Down, "3128") {
			t.Errorf("%d pages, want 1; Down is %q, want an error of the proxy", p.Pages, p.Down)
		}
		wait()
		if p := c.Progress(); p.Down != "" {
			t.Errorf("at the end, Down is %q, want none", p.Down)
		}
	})
}
