package exact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Queue is a whole frontier beside which a set can decide: redisstore's, or one
// in memory.
type Queue interface {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	Outbox
}

// Config says what a Store stands on. All but Output, Now and Logger is
// required.
type Config struct {
	Queue  Queue
	Set    *Breaker
	Rules  *Rules
	Hasher bloomstore.Hasher                // of the crawl
	Host   func(url string) (string, error) // the host key of a canonical URL
	Output *Output                          // the queue's; nil: no item is finished through this Store
	Now    func() time.Time                 // nil means time.Now; tests
	Logger *slog.Logger                     // nil discards
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	missing := func(is bool, name string) {
		if is {
			errs = append(errs, fmt.Errorf("exact: %s is missing", name))
		}
	}
	missing(c.Queue == nil, "Queue")
	missing(c.Set == nil, "Set")
	missing(c.Rules == nil, "Rules")
	missing(c.Host == nil, "Host")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Output == nil {
		c.Output = NewOutput(OutputConfig{Set: c.Set})
	}
	return c, errors.Join(errs...)
}

// Store is a frontier whose exact items are decided by a set, and whose bulk
// items are the queue's alone. It asks the set before an exact item is offered
// to the queue, which then does not ask its filter, and tells it what became of
// the item before the queue hears that. It is safe for concurrent use.
//
// Items that the set knows as waiting and the queue does not are brought back by
// a Relay. One must run, in any process, or a crawl that a crash left with such
// items does not end.
type Store struct {
	Queue
	cfg    Config
	leases leases
	idle   idleness
}

var _ Queue = (*Store)(nil)

// New returns a Store. Its error names what cfg lacks.
func New(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{Queue: cfg.Queue, cfg: cfg}, nil
}

// Add implements frontier.Store. While the set is away it takes no exact item:
// ErrUnavailable. After another error too the items that the set has decided to
// be new are queued, by a relay.
func (s *Store) Add(ctx context.Context, given []frontier.Offer) ([]frontier.Verdict, error) {
	if !hasExact(given) {
		return s.Queue.Add(ctx, given)
	}
	mine := s.exactOf(given)
	d, err := s.decide(ctx, keysOf(mine))
	if err != nil {
		return nil, err
	}
	d.apply(mine, s.cfg.Now())
	verdicts, err := s.Queue.Add(ctx, mine.links)
	if err != nil {
		return nil, err
	}
	crash.Point("offered")
	heard := hearing{}
	for i := range mine.links {
		heard.note(mine, i, verdicts[i].Answer != frontier.Refused)
	}
	if s.cfg.Now().Sub(d.at) > freshFor {
		heard.dropRefused()
	}
	s.settle(ctx, heard)
	return verdicts, nil
}

// Where says where the set has a canonical URL.
func (s *Store) Where(ctx context.Context, url string) (Status, error) {
	return s.cfg.Set.Lookup(ctx, s.cfg.Hasher.Fingerprint(url))
}

// isExact reports whether the set decides about an offer. What the queue refuses
// in any case the set is not asked about.
func isExact(it *frontier.Offer) bool {
	return it.Class != frontier.Bulk && it.URL != "" && len(it.URL) <= frontier.MaxURLBytes &&
		it.Host != "" && it.Priority < frontier.Priorities
}

// hasExact reports whether the set decides about any of links.
func hasExact(links []frontier.Offer) bool {
	return slices.ContainsFunc(links, func(link frontier.Offer) bool { return isExact(&link) })
}

// offers are made together. prints holds, index for index, the fingerprints of the
// exact ones.
type offers struct {
	links  []frontier.Offer
	prints []bloomstore.Fingerprint
}

func (o *offers) add(link frontier.Offer, print bloomstore.Fingerprint) {
	o.links, o.prints = append(o.links, link), append(o.prints, print)
}

// exactOf returns a copy of links, with the fingerprints of the exact ones.
func (s *Store) exactOf(links []frontier.Offer) offers {
	mine := offers{slices.Clone(links), make([]bloomstore.Fingerprint, len(links))}
	for i := range links {
		if isExact(&links[i]) {
			mine.prints[i] = s.cfg.Hasher.Fingerprint(links[i].URL)
		}
	}
	return mine
}

// keysOf returns the keys of exact offers, each once.
func keysOf(batches ...offers) (keys []Key) {
	asked := map[bloomstore.Fingerprint]bool{}
	for _, batch := range batches {
		for i := range batch.links {
			it, print := &batch.links[i], batch.prints[i]
			if !isExact(it) || asked[print] {
				continue
			}
			asked[print] = true
			keys = append(keys, Key{
				Fingerprint: print, URL: it.URL, Class: it.Class,
				Depth: it.Depth, Hops: it.Hops, Priority: it.Priority,
			})
		}
	}
	return keys
}

// decisions are what the set said of keys that it was asked about together.
type decisions struct {
	of map[bloomstore.Fingerprint]decided
	at time.Time // no later than the set's
}

// decided is what the set said of one key, as the queue is told it.
type decided struct {
	decision frontier.Decision
	round    uint32
}

// decide asks the set about keys.
func (s *Store) decide(ctx context.Context, keys []Key) (decisions, error) {
	d := decisions{of: make(map[bloomstore.Fingerprint]decided, len(keys)), at: s.cfg.Now()}
	answers, err := s.cfg.Set.Decide(ctx, keys)
	if err != nil {
		return d, fmt.Errorf("exact: decide about %d URLs: %w", len(keys), err)
	}
	for i, key := range keys {
		d.of[key.Fingerprint] = s.cfg.Rules.decided(answers[i], key.Class)
	}
	crash.Point("decided")
	return d, nil
}

// decided turns the set's answer about a key of a class into what the queue is
// told.
func (r *Rules) decided(answer Answer, class frontier.Class) decided {
	switch {
	case !answer.New:
		return decided{decision: frontier.Known}
	case !answer.First:
		return decided{frontier.Again, answer.Round}
	case r.Pure(class):
		return decided{frontier.New, answer.Round}
	default:
		return decided{frontier.Promoted, answer.Round}
	}
}

// isNew reports whether an offer is to be queued.
func isNew(decision frontier.Decision) bool {
	return decision == frontier.New || decision == frontier.Promoted || decision == frontier.Again
}

// Who was told that a key is new may offer it for freshFor; a relay leaves it
// alone for staleAfter, and has to offer what nobody did.
const (
	freshFor   = 10 * time.Second
	staleAfter = time.Minute
)

// apply writes the decisions into the exact ones of offers. What was new too long
// ago counts as known: the relay offers it.
func (d decisions) apply(to offers, now time.Time) {
	stale := now.Sub(d.at) > freshFor
	for i := range to.links {
		it := &to.links[i]
		if !isExact(it) {
			continue
		}
		said := d.of[to.prints[i]]
		if it.Decision, it.Round = said.decision, said.round; stale && isNew(it.Decision) {
			it.Decision = frontier.Known
		}
	}
}

// hearing is what the queue said of new keys: true: they wait there.
type hearing map[Ref]bool

// note notes what became of an offer, by its index. Of equal offers one is enough.
func (h hearing) note(of offers, i int, waits bool) {
	if it := &of.links[i]; isExact(it) && isNew(it.Decision) {
		ref := Ref{of.prints[i], it.Round}
		h[ref] = h[ref] || waits
	}
}

// dropRefused forgets what was refused. A relay may have offered it meanwhile,
// with another answer.
func (h hearing) dropRefused() {
	maps.DeleteFunc(h, func(_ Ref, waits bool) bool { return !waits })
}

// settle tells the set which new keys the queue has, and which it refused. What
// the set does not hear a relay finds out.
func (s *Store) settle(ctx context.Context, heard hearing) {
	var queued, refused []Ref
	for ref, waits := range heard {
		if waits {
			queued = append(queued, ref)
		} else {
			refused = append(refused, ref)
		}
	}
	if len(queued) > 0 {
		s.unheard(ctx, "queued keys not marked", s.cfg.Set.Queued(ctx, queued))
	}
	if len(refused) > 0 {
		s.unheard(ctx, "refused keys not withdrawn", s.cfg.Set.Withdraw(ctx, refused))
	}
	crash.Point("marked")
}

func (s *Store) unheard(ctx context.Context, what string, err error) {
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, what, slog.Any("err", err))
	}
}
