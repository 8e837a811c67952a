package proofs

import (
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

	"github.com/bloomfrontier/crawler/bench/testweb"
)

// site is a test web on a loopback port of this process, which outlives the
// crawlers that are killed.
type site struct {
	*testweb.Web
	addr string

	stalled atomic.Int64 // the longest that this process did not get to run, in ns

	mu       sync.Mutex
	requests int
	alarmAt  int
	alarm    func()
}

// serveSite serves a web; around, unless nil, stands before its answers.
func serveSite(t *testing.T, cfg testweb.Config, around func(http.Handler) http.Handler) *site {
	t.Helper()
	cfg.KeepLog = true
	web, err := testweb.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Web: web}
	answer := web.Handler()
	if around != nil {
		answer = around(answer)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count()
		answer.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed crawler is nothing to report
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

// watch notes how late this process is when it has something to do.
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

// ringAfter calls alarm when n more requests have come, before the last of them
// is answered. It forgets an earlier alarm.
func (s *site) ringAfter(n int, alarm func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmAt, s.alarm = s.requests+n, alarm
}

// asked is a request of the log by the URL that it was for.
type asked struct {
	testweb.Request
	url string
}

// pages returns the requests for pages so far; robots.txt is none.
func (s *site) pages() []asked {
	var all []asked
	for _, r := range s.Log() {
		if r.Path != "/robots.txt" {
			all = append(all, asked{r, "http://" + r.Host + r.Path})
		}
	}
	return slices.Clip(all)
}

// flags are what tells a crawler of this process's web from one of the real web.
func (s *site) flags() []string {
	return []string{"--scope", "any", "--connect-to", "*=" + s.addr}
}

// counts lists numbers by name.
func counts(byName map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, byName[name]))
	}
	return strings.Join(parts, ", ")
}
