package fetcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// holdingOf returns a lease of a host under a policy.
func holdingOf(host string, polite politeness.Policy) *holding {
	p := &policy.Policy{Politeness: polite, HostConcurrency: 1}
	return &holding{
		Crawl: &Crawl{cfg: Config{Policy: policy.NewLive(p).Load}}, lease: frontier.Lease{Host: host},
		host: politeness.New(polite), rules: &hostRules{policy: p, host: p.Host(host)},
	}
}

// TestPermitInBackoff: a request that waits for its connection while the host answers another
// request with 429 is not written until the host's back-off ends.
func TestPermitInBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holdingOf("a.test", politeness.Default())
		h.stopping, h.deadline = t.Context(), time.Now().Add(time.Hour)
		if err := h.permit(); err != nil {
			t.Errorf("permit before the answer = %v, want nil", err)
		}
		h.noteAnswer(&get.Response{Status: 429, RetryAfter: time.Minute}, nil)
		if err := h.permit(); err == nil {
			t.Error("permit after an answer with the status 429 and Retry-After = nil, want an error")
		}
		time.Sleep(time.Minute)
		if err := h.permit(); err != nil {
			t.Errorf("permit after the back-off = %v, want nil", err)
		}
	})
}

// TestRosterReserves: requests to one host that have their connections at the same moment are
// written one delay apart, before, during and after a lease of the host. Another request may
// start one delay after the last of them. For a host without a delay, no request waits.
func TestRosterReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 2 * time.Second
		r, begun := newRoster(nil), time.Now()
		reserve := func(want time.Duration) {
			t.Helper()
			if got := r.reserve("a.test", delay).Sub(begun); got != want {
				t.Errorf("the request can be written after %v, want %v", got, want)
			}
		}
		turn := func(want time.Duration) {
			t.Helper()
			if got := r.start("a.test", delay, false); got != want {
				t.Errorf("the next turn is in %v, want %v", got, want)
			}
		}
		reserve(0)
		reserve(delay)
		turn(2 * delay)
		h := holdingOf("a.test", politeness.Policy{Delay: delay})
		r.join(h)
		reserve(2 * delay)
		if got := h.reserve(delay).Sub(begun); got != 3*delay {
			t.Errorf("the request of the lease can be written after %v, want %v", got, 3*delay)
		}
		turn(4 * delay)
		r.leave(h)
		reserve(4 * delay)
		turn(5 * delay)
		time.Sleep(time.Minute)
		reserve(time.Minute)

		eager := holdingOf("b.test", politeness.Policy{})
		for range 2 {
			if at := eager.reserve(eager.delay()); !at.Equal(time.Now()) {
				t.Errorf("a request without a delay waits %v, want 0", time.Until(at))
			}
		}
	})
}

// TestReserveObeysNewPolicy: a request that waits for its connection while the delay becomes longer is
// not written before the new delay has passed.
func TestReserveObeysNewPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := get.New(get.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := holdingOf("a.test", politeness.Policy{Delay: time.Second})
		live := policy.NewLive(h.rules.policy)
		h.cfg.Client, h.cfg.Policy, h.asks, h.room = client, live.Load, newGate(1), newGate(1)
		begun := time.Now()
		h.reserve(time.Second)
		live.Store(&policy.Policy{Politeness: politeness.Policy{Delay: 10 * time.Second}, HostConcurrency: 1})
		if at := h.reserve(time.Second).Sub(begun); at != 10*time.Second {
			t.Errorf("the request is written after %v, want 10s", at)
		}
	})
}
