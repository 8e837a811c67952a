package proofs

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/testweb"
)

// metronome measures how late requests reach a server on this machine while
// other things run on it: until it is stopped, it sends requests from this
// process to itself and notes the longest time between having a connection and
// being read. A request of the crawler can be as late, and the gap behind it
// looks shorter by as much.
type metronome struct {
	worst atomic.Int64
	stop  func()
}

const sentHeader = "Sent"

func startMetronome(t *testing.T) *metronome {
	t.Helper()
	m := new(metronome)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent, _ := strconv.ParseInt(r.Header.Get(sentHeader), 10, 64)
		m.worst.Store(max(m.worst.Load(), time.Now().UnixNano()-sent))
	}))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.beat(server)
			case <-done:
				return
			}
		}
	}()
	m.stop = func() {
		close(done)
		<-stopped
		server.Close()
	}
	return m
}

// beat sends one request. One that fails measured nothing.
func (m *metronome) beat(server *httptest.Server) {
	request, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		return
	}
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		request.Header.Set(sentHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	}}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &trace))
	answer, err := server.Client().Do(request)
	if err != nil {
		return
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = errors.Join(err, answer.Body.Close())
}

// end stops the metronome and returns what the crawl promised, for a judge on
// this machine. The full proof tolerates what the judge does by itself, 25 ms or
// a tenth of the delay; a small run shares the machine with other tests, and is
// given three times what the metronome measured on top.
func (m *metronome) end(t *testing.T, delay time.Duration) testweb.Manners {
	m.stop()
	worst := time.Duration(m.worst.Load())
	promised, tolerance := testweb.Manners{Delay: delay}, "25 ms or 10 %"
	if !*proof {
		promised.Tolerance = max(25*time.Millisecond, delay/10) + 3*worst
		tolerance = promised.Tolerance.String()
	}
	if tolerance := max(25*time.Millisecond, delay/10); *proof && worst > tolerance {
		t.Logf("this machine is too busy to judge with a tolerance of %v: requests were up to %v late", tolerance, worst)
	}
	figure(t, "tolerance", "%s; requests were up to %v late on this machine", tolerance, worst.Round(10*time.Microsecond))
	return promised
}

func reportManners(t *testing.T, verdict *testweb.Verdict) {
	figure(t, "requests", "%d to %d hosts: %d too early, %d replayed, %d against robots.txt, %d of unknown URLs",
		verdict.Requests, verdict.Hosts, verdict.TooEarly, verdict.Replayed, verdict.Disallowed, verdict.Unknown)
	if closest := verdict.Closest; closest != nil {
		figure(t, "worst-gap", "%v", closest)
	}
}
