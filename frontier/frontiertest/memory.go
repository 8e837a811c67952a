package frontiertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// MemoryConfig configures a Memory. Its zero value works.
type MemoryConfig struct {
	Delay      time.Duration // of hosts without a HostUpdate; 0 means none
	LeaseTTL   time.Duration // 0 means 30 s
	MaxPerHost uint64        // items added to one host over the whole crawl; 0 means no limit
	// SeedsUnlimited says that MaxPerHost does not hold for hosts of seeds (see frontier.SeedHost).
	SeedsUnlimited bool
	// PagesOnly says that leased items do not count towards MaxPages: see LimitsPagesOnly.
	PagesOnly bool

	Policy func() *policy.Policy // only its Pause, DomainRate and Hosts count; nil means none
	Now    func() time.Time      // nil means time.Now
	Output frontier.Output       // nil means that records are written and nothing is synced
	// Exact is the exact set, which decides whether exact items are new; nil means that there is none, and the Memory
	// decides.
	Exact *exact.Client
}

// Memory is the reference frontier: one mutex, plain maps and slices, no durability. It
// is written to be easy to check, and is fast enough for tests of some ten thousand URLs.
// It starts no goroutine and reads the time only through MemoryConfig.Now, so it works
// under testing/synctest. It is safe for concurrent use.
//
// Completion.Record, Output.Sync and the calls of Complete to the exact set run while its mutex is held, so they must not
// call the Memory.
type Memory struct {
	cfg     MemoryConfig
	hasher  bloomstore.Hasher
	policy  *policy.Policy // of the last call
	created time.Time
	// filter can claim to contain bulk items that were never added. It is nil except in tests
	// of this package.
	filter interface {
		Test(print []byte) bool
		TestOrAdd(print []byte) bool
	}

	mu       sync.Mutex
	stats    frontier.Stats                    // without the fields that counters computes
	entries  map[bloomstore.Fingerprint]*entry // every URL that was ever added
	past     []*entry                          // finished entries that a later offer of their URL replaced
	hosts    map[string]*host                  // every host that ever had an entry
	leases   map[frontier.LeaseID]*lease       // also leases that have ended, until their deadline
	admitted map[string]bool                   // scope keys
	showed   map[frontier.Content]frontier.Referrer
	groups   map[string]map[string]bool // keys of quota groups
	seq      uint64                     // of the last entry
	top      uint32                     // the latest round of an entry

	submitting sync.Mutex // held during a call of Submit or RetryOnce; guards notes
	notes      map[[32]byte]*note
}

var _ exact.Queue = (*Memory)(nil)

// entry is one URL that was added.
type entry struct {
	item      frontier.Item
	state     frontier.State
	outcome   frontier.Outcome // with Done and Failed
	status    int
	ended     time.Time // with Done and Failed
	held      bool      // for a queued item: waits while the policy pauses it
	seq       uint64    // orders the items of one priority in the host's queue
	notBefore time.Time // for a queued item: when it is ready; zero means at once
}

// host is one host key. It is kept for the whole crawl.
type host struct {
	key    string
	queue  []*entry // queued items, delayed or not, by priority, then seq
	added  uint64   // items ever added
	due    time.Time
	delay  time.Duration
	blob   []byte
	lease  *lease  // nil while it is not leased
	site   string  // see policy.Site
	share  float64 // requests per second of its place in the site, which it has while it is leased, and until leaves
	leaves time.Time

	counts frontier.HostCounts // without Failed and Ago
	last   time.Time           // when an item was last completed, except by GiveBack; zero means never
}

// NewMemory returns an empty frontier.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg.LeaseTTL = cmp.Or(cfg.LeaseTTL, 30*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Policy == nil {
		cfg.Policy = policy.NewLive(new(policy.Policy)).Load
	}
	return &Memory{
		cfg:      cfg,
		created:  cfg.Now(),
		hasher:   bloomstore.NewHasher(bloomstore.NewKey()),
		stats:    frontier.Stats{Books: frontier.Books{Refused: map[frontier.Reason]uint64{}}, Outcomes: map[frontier.Outcome]uint64{}, Causes: map[string]uint64{}},
		entries:  map[bloomstore.Fingerprint]*entry{},
		hosts:    map[string]*host{},
		leases:   map[frontier.LeaseID]*lease{},
		admitted: map[string]bool{},
		showed:   map[frontier.Content]frontier.Referrer{},
		groups:   map[string]map[string]bool{},
		notes:    map[[32]byte]*note{},
	}
}

// Hasher returns the hasher of the crawl's fingerprints.
func (m *Memory) Hasher() bloomstore.Hasher { return m.hasher }

// Add implements frontier.Store.
func (m *Memory) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	client := m.cfg.Exact
	if client == nil {
		return m.AddDecided(ctx, offers, nil)
	}
	decided, err := client.Decide(ctx, m.hasher, offers)
	if err != nil {
		return nil, err
	}
	decided = client.Fresh(decided)
	verdicts, err := m.AddDecided(ctx, offers, decided.Each)
	if err != nil {
		return nil, err
	}
	crash.Point("offered")
	answers := exact.Answers{}
	client.Collect(answers, decided, verdicts)
	client.Settle(ctx, answers)
	return verdicts, nil
}

// Admit implements frontier.Scope.
func (m *Memory) Admit(_ context.Context, keys []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.admitted[key] = true
	}
	return nil
}

// Admitted implements frontier.Scope.
func (m *Memory) Admitted(_ context.Context, keys []string) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := make([]bool, len(keys))
	for i, key := range keys {
		open[i] = m.admitted[key]
	}
	return open, nil
}

// Reserve implements frontier.Quota.
func (m *Memory) Reserve(_ context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	has := make([]bool, len(keys))
	for i, k := range keys {
		if m.groups[k.Group] == nil {
			m.groups[k.Group] = map[string]bool{}
		}
		members := m.groups[k.Group]
		if has[i] = members[k.Key] || uint64(len(members)) < maxKeys; has[i] {
			members[k.Key] = true
		}
	}
	return has, nil
}

// Reserved implements frontier.Quota.
func (m *Memory) Reserved(_ context.Context, group, key string) (has bool, size uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[group][key], uint64(len(m.groups[group])), nil
}

// Pause implements frontier.Control.
func (m *Memory) Pause(_ context.Context, paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Paused = paused
	return nil
}

// Retry implements frontier.Control.
func (m *Memory) Retry(ctx context.Context, of frontier.Failures) (int, error) {
	if m.cfg.Exact == nil {
		return m.retry(of, nil), nil
	}
	stays, offered, err := m.retryExact(ctx, of)
	if err != nil {
		return offered, err
	}
	return m.retry(of, stays) + offered, nil
}

// selected reports whether e is a failed item that of selects. The caller must hold m.mu.
func (m *Memory) selected(of *frontier.Failures, e *entry) bool {
	return e.state == frontier.Failed && (of.Host == "" || e.item.Host == of.Host) && of.Select(e.outcome, m.cfg.Now().Sub(e.ended))
}

// retry queues failed items again, except those in stays.
func (m *Memory) retry(of frontier.Failures, stays map[bloomstore.Fingerprint]bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	retried := 0
	for print, e := range m.entries {
		if !m.selected(&of, e) || stays[print] {
			continue
		}
		retried++
		e.item.Round++
		e.item.Added = frontier.MomentAt(m.cfg.Now().Sub(m.created))
		m.top = max(m.top, e.item.Round)
		e.item.Attempts, e.item.Deliveries = 0, 0
		e.outcome, e.status = "", 0
		m.stats.Failed--
		m.enqueue(e, time.Time{})
		m.hosts[e.item.Host].blob = nil // it can contain the reason why the host's items failed
	}
	return retried
}

// enqueue puts e at its place in its host's queue. e is not leased before notBefore.
func (m *Memory) enqueue(e *entry, notBefore time.Time) {
	e.state, e.notBefore = frontier.Queued, notBefore
	h := m.hosts[e.item.Host]
	at, _ := slices.BinarySearchFunc(h.queue, e, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.item.Priority, b.item.Priority), cmp.Compare(a.seq, b.seq))
	})
	h.queue = slices.Insert(h.queue, at, e)
	m.stats.Queued++
}

// draft collects the changes of one call to a Memory. They take effect with commit, so
// that a failed call changes nothing.
type draft struct {
	m       *Memory
	added   []offered
	prints  map[bloomstore.Fingerprint]bool
	perHost map[string]uint64
	books   frontier.Books // found, seen and refused; added is len(added)

	recovered, promoted uint64

	top    uint32                                 // as in Memory
	showed map[frontier.Content]frontier.Referrer // contents that are new
}

type offered struct {
	frontier.Offer
	decision exact.Decision // of an exact set
	print    bloomstore.Fingerprint
}

func (m *Memory) newDraft() *draft {
	return &draft{
		m: m, top: m.top, showed: map[frontier.Content]frontier.Referrer{},
		prints:  map[bloomstore.Fingerprint]bool{},
		perHost: map[string]uint64{},
		books:   frontier.Books{Refused: map[frontier.Reason]uint64{}},
	}
}

// offer answers offers as if the Memory already contained the offers that d has added. decided has the decisions of an
// exact set in the order of the offers, or is nil.
func (d *draft) offer(offers []frontier.Offer, decided []exact.Decision) []frontier.Verdict {
	verdicts := make([]frontier.Verdict, len(offers))
	for i, offer := range offers {
		o := offered{Offer: offer, print: d.m.hasher.Fingerprint(offer.URL)}
		if decided != nil {
			o.decision = decided[i]
		}
		verdict := d.judge(o)
		verdicts[i] = verdict
		d.books.Found++
		switch verdict.Answer {
		case frontier.Added:
			d.decided(&o)
			d.added = append(d.added, o)
			d.prints[o.print] = true
			d.perHost[o.Host]++
		case frontier.Seen:
			d.books.Seen++
		case frontier.Refused:
			d.books.Refused[verdict.Reason]++
		}
	}
	return verdicts
}

func (d *draft) judge(o offered) frontier.Verdict {
	switch {
	case o.URL == "" || o.Host == "":
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonMalformed}
	case len(o.URL) > frontier.MaxURLBytes:
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonTooLong}
	case d.seen(o) || d.prints[o.print]:
		return frontier.Verdict{Answer: frontier.Seen}
	}
	added := d.perHost[o.Host]
	if h := d.m.hosts[o.Host]; h != nil {
		added += h.added
	}
	unlimited := d.m.cfg.SeedsUnlimited && d.m.admitted[frontier.SeedHost(o.Host)]
	if d.m.cfg.MaxPerHost > 0 && !frontier.IsCheck(o.Host) && added >= d.m.cfg.MaxPerHost && !unlimited {
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonHostLimit}
	}
	return frontier.Verdict{Answer: frontier.Added}
}

// showedFirst returns the first item that showed a content. If none did, that is the given item.
func (d *draft) showedFirst(content frontier.Content, item bloomstore.Fingerprint) frontier.Referrer {
	first, known := d.m.showed[content]
	if !known {
		first, known = d.showed[content]
	}
	if !known {
		first = frontier.ReferrerOf(item)
		d.showed[content] = first
	}
	return first
}

// commit makes the draft take effect.
func (d *draft) commit(now time.Time) {
	m := d.m
	maps.Copy(m.showed, d.showed)
	for _, o := range d.added {
		if m.filter != nil {
			m.filter.TestOrAdd(o.print[:])
		}
		h := m.hosts[o.Host]
		if h == nil {
			h = &host{key: o.Host, site: policy.Site(o.Host), delay: m.cfg.Delay}
			if frontier.IsCheck(o.Host) {
				h.delay = max(h.delay, frontier.CheckDelay)
			}
			m.hosts[o.Host] = h
		}
		h.added++
		m.seq++
		var notBefore time.Time
		if o.Delay > 0 {
			notBefore = now.Add(o.Delay)
		}
		e := &entry{seq: m.seq, item: o.Item(o.print)}
		e.item.Round, e.item.Added = o.decision.Round, frontier.MomentAt(now.Sub(m.created))
		if before := m.entries[o.print]; before != nil {
			m.past = append(m.past, before)
		}
		m.entries[o.print] = e
		m.enqueue(e, notBefore)
	}
	m.stats.Found += d.books.Found
	m.stats.Added += uint64(len(d.added))
	m.stats.Seen += d.books.Seen
	for reason, n := range d.books.Refused {
		m.stats.Refused[reason] += n
	}
	m.stats.Recovered += d.recovered
	m.stats.Promoted += d.promoted
	m.top = d.top
}
