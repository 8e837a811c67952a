package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestDomainRateOfWorkers: three workers of a crawl in Redis together keep the rate of a domain with 200 hosts. None of
// them alone can reach the rate, but two can exceed it, and they do if each has a rate of its own.
func TestDomainRateOfWorkers(t *testing.T) {
	t.Parallel()
	const (
		hosts, workers = 200, 3
		rate           = 8 // requests per second
		delay          = 250 * time.Millisecond
		window         = 2 * time.Second
	)
	var mu sync.Mutex
	var starts []time.Time
	asked := make(map[string]int) // by worker
	site := func(worker string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			starts = append(starts, time.Now())
			asked[worker]++
			mu.Unlock()
			time.Sleep(200 * time.Millisecond) // a worker makes at most 5 requests per second
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "the page of %s", r.Host)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	temp := t.TempDir()
	args := []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x"}
	for n := range hosts {
		args = append(args, fmt.Sprintf("http://h%d.a.test/", n))
	}
	var running sync.WaitGroup
	begun := time.Now()
	for n := range workers {
		worker := fmt.Sprintf("w%d", n)
		cmd := exec.Command("crawler", slices.Concat([]string{"crawl", "--dir", filepath.Join(temp, worker), "--urls", "10000", "--concurrency", "1",
			"--delay", delay.String(), "--latency-factor", "0", "--domain-rate", fmt.Sprint(rate), "--robots", "ignore",
			"--connect-to", "*=" + site(worker)}, args)...)
		cmd.Env = append(os.Environ(), "HOME="+temp)
		running.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", worker, err, out)
			}
		})
	}
	running.Wait()
	took := time.Since(begun)
	t.Logf("%d requests in %v: %v", len(starts), took, asked)
	if len(starts) != hosts {
		t.Errorf("%d requests, want %d", len(starts), hosts)
	}
	slices.SortFunc(starts, time.Time.Compare)
	// At both ends of a window, each host that has a place can have a request, and requests can be late.
	most := int(window.Seconds()*rate) + 2*int(rate*delay.Seconds())
	for i := range starts {
		n := 0
		for _, at := range starts[i:] {
			if at.Sub(starts[i]) < window {
				n++
			}
		}
		if n > most {
			t.Fatalf("%d requests in %v, want at most %d", n, window, most)
		}
	}
	if ideal := time.Duration(hosts/rate) * time.Second; took > 2*ideal+20*time.Second {
		t.Errorf("the crawl took %v, want about %v", took, ideal)
	}
}
