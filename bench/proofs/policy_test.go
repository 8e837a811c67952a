package proofs

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// obeyTime is the time after which no request may be made under an earlier policy.
const obeyTime = 5 * time.Second

// watchedSite is a site with many hosts, whose pages have no end. It notes when each host was asked for what.
type watchedSite struct {
	mu       sync.Mutex
	requests map[string][]watchedRequest // by host
}

type watchedRequest struct {
	at   time.Time
	path string
}

// ServeHTTP implements http.Handler.
func (s *watchedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.Host] = append(s.requests[r.Host], watchedRequest{time.Now(), r.URL.Path})
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	for i := range 5 {
		fmt.Fprintf(w, `<a href="/even/%x">a</a><a href="/odd/%x">b</a>`, rand.Uint64(), i+int(rand.Uint32()))
	}
}

// between calls judge for each request between two times, with the time since the host's request before it. It returns
// the number of requests.
func (s *watchedSite) between(from, to time.Time, judge func(host string, r watchedRequest, gap time.Duration)) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, all := range s.requests {
		for i, r := range all {
			if r.at.Before(from) || r.at.After(to) {
				continue
			}
			n++
			if i > 0 {
				judge(host, r, r.at.Sub(all[i-1].at))
			}
		}
	}
	return n
}

// TestPolicyObeyed changes the delay and then --exclude of a crawl with three workers. Meanwhile one of them is suspended, and
// another cannot reach Redis. From 5 s after each change on, no worker makes a request that the new policy forbids, also
// when the two go on. Their leases last longer, so leases do not stop them.
func TestPolicyObeyed(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 42))
	site := &watchedSite{requests: make(map[string][]watchedRequest)}
	web := httptest.NewServer(site)
	t.Cleanup(web.Close)
	queue := servers.Redis(t, servers.RedisOptions{})
	proxy := servers.Proxy(t, queue.Addr())
	const oldDelay, newDelay = 100 * time.Millisecond, 1500 * time.Millisecond
	const hosts = 24
	m := newTeam(t, queue.URL(), rng, "--urls", "100k", "--partitions", "8", "--delay", oldDelay.String(), "--latency-factor", "0",
		"--robots", "ignore", "--lease-time", "1m", "--connect-to", "*.test="+strings.TrimPrefix(web.URL, "http://"))
	for i := range hosts {
		m.flags = append(m.flags, fmt.Sprintf("http://h%d.test/", i))
	}
	m.ended = make(chan *worker, 3)
	m.join("")
	m.join("")
	m.name[1] = strings.Replace(queue.URL(), queue.Addr(), proxy.Addr(), 1)
	m.join("")
	m.name[1] = queue.URL()
	suspended := m.working[1].cmd.Process
	nothing := func(string, watchedRequest, time.Duration) {}
	for limit := time.Now().Add(patience()); ; time.Sleep(100 * time.Millisecond) {
		now := time.Now()
		if site.between(now.Add(-time.Second), now, nothing) >= 5*hosts {
			break // under load: the hosts are asked about ten times a second
		}
		if now.After(limit) {
			t.Fatal("the crawl does not get going")
		}
	}
	for _, change := range []struct {
		setting string
		judge   func(host string, r watchedRequest, gap time.Duration)
	}{
		{"delay=" + newDelay.String(), func(host string, r watchedRequest, gap time.Duration) {
			if gap < newDelay*9/10 {
				t.Errorf("%s was asked for %s after %v, want %v", host, r.path, gap, newDelay)
			}
		}},
		{"exclude=/odd/", func(host string, r watchedRequest, _ time.Duration) {
			if strings.Contains(r.path, "/odd/") {
				t.Errorf("%s was asked for %s, which is excluded", host, r.path)
			}
		}},
	} {
		proxy.Down()
		if err := suspended.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		e := command(t, m.bin, "set", m.name[0], m.name[1], m.name[2], m.name[3], change.setting).wait()
		changed := time.Now()
		if e.code != 0 {
			t.Fatalf("set %s: exit code %d: %s", change.setting, e.code, e.stderr)
		}
		time.Sleep(time.Until(changed.Add(obeyTime + time.Second)))
		if err := suspended.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		proxy.Up()
		time.Sleep(8 * time.Second)
		n := site.between(changed.Add(obeyTime), time.Now(), change.judge)
		if n < hosts {
			t.Errorf("after %s only %d requests were made", change.setting, n)
		}
		name, _, _ := strings.Cut(change.setting, "=")
		figure(t, "requests-after-"+name, "%d", n)
	}
	for _, w := range m.working {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
	}
	for range m.working {
		if w := <-m.ended; w.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
			t.Errorf("a worker ended with exit code %d: %s", w.cmd.ProcessState.ExitCode(), &w.stderr)
		}
	}
	e := command(t, m.bin, append([]string{"status", "--audit"}, m.name...)...).wait()
	if e.code != 0 || !strings.Contains(e.stdout, "the books balance") {
		t.Errorf("audit: exit code %d: %s%s", e.code, e.stdout, e.stderr)
	}
}
