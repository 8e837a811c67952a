package proofs

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// site is a test web on a loopback port of this process. It continues to serve when a
// crawler is killed.
type site struct {
	*testweb.Web
	addr string

	stalled atomic.Int64 // the longest time for which this process did not run, in ns

	mu       sync.Mutex
	requests int // number of requests so far
	alarmAt  int // number of the request that calls alarm
	alarm    func()
}

// serveSite serves a web until the end of the test. The function wrap is optional, and
// can wrap the web's handler.
func serveSite(t *testing.T, cfg testweb.Config, wrap func(http.Handler) http.Handler) *site {
	t.Helper()
	cfg.KeepLog = true
	web, err := testweb.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Web: web}
	answer := web.Handler()
	if wrap != nil {
		answer = wrap(answer)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count()
		answer.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // killed crawlers break connections
	server.Config.ReadHeaderTimeout = time.Minute
	server.Start()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.watch(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		server.CloseClientConnections()
		server.Close()
	})
	s.addr = server.Listener.Addr().String()
	return s
}

// watch repeatedly sleeps for a short time, and measures how much longer each sleep
// takes than it should. It keeps the longest such excess in s.stalled.
func (s *site) watch(stop <-chan struct{}) {
	const pause = 2 * time.Millisecond
	for {
		slept := time.Now()
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		if late := int64(time.Since(slept) - pause); late > s.stalled.Load() {
			s.stalled.Store(late)
		}
	}
}

// count counts a request, and calls the alarm if it is due.
func (s *site) count() {
	s.mu.Lock()
	s.requests++
	ring := s.alarm
	if s.requests != s.alarmAt {
		ring = nil
	}
	s.mu.Unlock()
	if ring != nil {
		ring()
	}
}

// ringAfter makes the site call the function alarm when the nth request from now comes,
// before this request is answered. The new alarm replaces an earlier one.
func (s *site) ringAfter(n int, alarm func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmAt, s.alarm = s.requests+n, alarm
}

// compareRecords compares the records of a crawl with those of a correct one.
func compareRecords(t *testing.T, web *testweb.Web, records []byte) testweb.Report {
	t.Helper()
	report, err := web.Compare(bytes.NewReader(records))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	return report
}

// compareExactly calls compareRecords, and adds the numbers of records to the figures. It
// is for webs whose records do not depend on the order of the crawl.
func compareExactly(t *testing.T, web *testweb.Web, records []byte) testweb.Report {
	t.Helper()
	report := compareRecords(t, web, records)
	figure(t, "records", "%d, expected %d: %d missing, %d unexpected, %d twice",
		report.Records, report.Expected, report.Missing, report.Unexpected, report.Duplicates)
	return report
}

// pageRequest is a request of the log, with its URL.
type pageRequest struct {
	testweb.Request
	url string
}

// pages returns the requests so far, except those for robots.txt.
func (s *site) pages() []pageRequest {
	var all []pageRequest
	for _, r := range s.Log() {
		if r.Path != "/robots.txt" {
			all = append(all, pageRequest{r, "http://" + r.Host + r.Path})
		}
	}
	return slices.Clip(all)
}

// flags returns the flags that every crawl of this web needs.
func (s *site) flags() []string {
	return []string{"--scope", "any", "--domain-rate", "0", "--connect-to", "*=" + s.addr}
}

// formatCounts formats numbers with their names, sorted by name.
func formatCounts(byName map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, byName[name]))
	}
	return strings.Join(parts, ", ")
}
