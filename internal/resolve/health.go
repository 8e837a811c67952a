package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// suspicious is the number of look-ups that must fail in a row before the name
	// server is probed. A crawl finds many names whose own servers are dead.
	suspicious = 8
	// probeEvery is the time for which the result of a probe is used, and the timeout
	// of a probe.
	probeEvery = 2 * time.Second
)

// health finds out whether look-ups fail because the name server does not answer at all,
// or because the names have no working server of their own. After some failures in a row
// it probes the name server with the name that was last found. The zero value has
// recorded nothing.
type health struct {
	mu     sync.Mutex
	failed int    // number of failed look-ups since the last answer
	last   string // the last name that had an address

	probing sync.Mutex // held by the caller that probes; other callers wait for it
	probed  time.Time  // when the last probe ended
	dead    bool       // whether the last probe failed
}

// recordAnswer records that the name server has answered. The argument name is a name that
// has an address, or empty if the answer was that a name does not exist.
func (h *health) recordAnswer(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
	if name != "" {
		h.last = name
	}
}

// recordFailure records that a look-up has failed, and reports whether the name server does not
// answer at all. Before the first name was found, it always returns false, because there
// is no name to probe with.
func (h *health) recordFailure(ctx context.Context, lookup func(context.Context, string) ([]netip.Addr, error)) bool {
	h.mu.Lock()
	h.failed++
	doubtful, name := h.failed >= suspicious && h.last != "", h.last
	h.mu.Unlock()
	if !doubtful {
		return false
	}
	h.probing.Lock()
	defer h.probing.Unlock()
	if time.Since(h.probed) < probeEvery {
		return h.dead
	}
	// The failed look-up may have used up the time of ctx.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeEvery)
	defer cancel()
	_, err := lookup(ctx, name)
	dns, _ := errors.AsType[*net.DNSError](err)
	h.dead = err != nil && (dns == nil || !dns.IsNotFound)
	h.probed = time.Now()
	if !h.dead {
		h.recordAnswer("")
	}
	return h.dead
}
