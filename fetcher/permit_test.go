package fetcher_test

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// late is a listener that returns its first connection only after a second one was
// made. So the TLS handshake on the first connection has to wait.
type late struct {
	net.Listener
	kept []net.Conn // connections that Accept returns next
	met  bool
}

// Accept is called by one goroutine.
func (l *late) Accept() (net.Conn, error) {
	for !l.met || len(l.kept) == 0 {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.kept = append(l.kept, conn)
		l.met = l.met || len(l.kept) == 2
	}
	conn := l.kept[0]
	l.kept = l.kept[1:]
	return conn, nil
}

// TestDelayAfterSlowConnection: a host receives no two requests within its delay, even if
// their connections are ready at the same moment. Both requests are for pages, or one is for
// a robots.txt to which another host redirects.
func TestDelayAfterSlowConnection(t *testing.T) {
	const delay = time.Second
	for name, seeds := range map[string][]string{
		"pages":      {"https://b.test/1", "https://b.test/2"},
		"robots.txt": {"https://b.test/1", "http://a.test/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var starts []time.Time
			b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				starts = append(starts, time.Now())
				mu.Unlock()
			}))
			b.Listener = &late{Listener: b.Listener}
			b.StartTLS()
			defer b.Close()
			redirects := http.NewServeMux()
			redirects.Handle("/robots.txt", http.RedirectHandler("https://b.test/robots.txt", http.StatusFound))
			a := httptest.NewServer(redirects)
			defer a.Close()
			w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: delay})
			cfg := w.config()
			cfg.Client = clientOf(t, get.Config{InsecureHosts: []string{"b.test"}, ConnectTo: []get.Rule{
				connectTo(t, "a.test="+a.Listener.Addr().String()), connectTo(t, "b.test="+b.Listener.Addr().String())}})
			cfg.Politeness = every(delay)
			cfg.HostConcurrency = 2
			ignore := true
			cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "b.test", IgnoreRobots: &ignore})
			w.crawl(cfg, seeds...)
			mu.Lock()
			defer mu.Unlock()
			if len(starts) != 2 {
				t.Fatalf("b.test received %d requests, want 2", len(starts))
			}
			if gap := starts[1].Sub(starts[0]); gap < delay/2 { // without the delay, it would be some milliseconds
				t.Errorf("b.test received two requests within %v, want %v", gap, delay)
			}
		})
	}
}

// TestNoRequestAfterTheLease: a request that gets its connection after its
// lease expired is not sent, because another worker may have the host.
// Here, connecting takes long. In a real crawl, the process may have been frozen.
func TestNoRequestAfterTheLease(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	requests := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	server.Listener = &late{Listener: server.Listener}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: 10 * time.Millisecond, LeaseTTL: 2 * time.Second})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{AllowPrivate: true, RootCAs: roots})
	cfg.Politeness = every(10 * time.Millisecond)
	cfg.Store = frontiertest.NewFaulty(w.store, frontiertest.Script(map[frontiertest.Op][]frontiertest.Fault{
		frontiertest.OpExtend: {{Err: frontier.ErrLeaseLost}},
	}))
	c := w.worker(cfg)
	w.seed(c, server.URL+"/page")
	if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
		t.Fatalf("Run ended with %q, %v", end, err)
	}
	w.balanced()
	if lost := c.Progress().LeasesLost; lost != 1 {
		t.Errorf("%d leases lost, want 1", lost)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/robots.txt", "/page"} {
		if requests[path] != 1 {
			t.Errorf("%s was asked for %d times, want once", path, requests[path])
		}
	}
}
