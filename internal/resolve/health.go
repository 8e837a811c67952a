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
	// suspicious is how many look-ups in a row fail before the server itself is
	// doubted: a crawl meets names whose own servers are dead.
	suspicious = 8
	// probeEvery is how long a probe counts.
	probeEvery = 2 * time.Second
)

// health tells a name server that answers nothing from names that have no
// working server of their own: after some failures in a row it asks again for
// the name that was answered last. Its zero value has seen nothing.
type health struct {
	mu     sync.Mutex
	failed int    // look-ups since the last answer
	last   string // name that has an address

	probing sync.Mutex // held by the caller that probes; the others wait for it
	probed  time.Time
	dead    bool // what the last probe found
}

// answered notes an answer: that name, if it is not empty, has an address, or
// that some other name does not exist.
func (h *health) answered(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
	if name != "" {
		h.last = name
	}
}

// silent notes a look-up that failed, and reports whether the server answers
// nothing at all. A server that never answered anything is not told from names
// that never work.
func (h *health) silent(ctx context.Context, lookup func(context.Context, string) ([]netip.Addr, error)) bool {
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
	// The look-up that failed may have used up the time of ctx.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeEvery)
	defer cancel()
	_, err := lookup(ctx, name)
	dns, _ := errors.AsType[*net.DNSError](err)
	h.dead = err != nil && (dns == nil || !dns.IsNotFound)
	h.probed = time.Now()
	if !h.dead {
		h.answered("")
	}
	return h.dead
}
