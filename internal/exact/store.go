package exact

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Queue is a whole frontier that a set can stand beside. Package redisstore has one, and package
// frontiertest has one in memory.
type Queue interface {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	// Waits reports for each key, in order, whether its item is queued or leased. An
	// item stops waiting in the step that completes it.
	Waits(ctx context.Context, keys []ItemKey) ([]bool, error)
	// RetryUnless does the same as Retry, but first calls outdated for each failed exact item.
	// Outdated items stay failed. The function outdated can call other methods of the Queue.
	RetryUnless(ctx context.Context, host string, outdated func(context.Context, *frontier.Item) (bool, error)) (int, error)
}

// ItemKey names an item in a queue.
type ItemKey struct {
	Host        string
	Fingerprint bloomstore.Fingerprint
}

// Config configures a Store. All fields except Now and Logger are required.
type Config struct {
	Queue  Queue
	Set    *Breaker
	Rules  *Rules
	Hasher bloomstore.Hasher                // of the crawl
	Host   func(url string) (string, error) // the host key of a canonical URL
	Now    func() time.Time                 // for tests; nil means time.Now
	Logger *slog.Logger                     // nil discards
}

// Store is a frontier in which a set decides about exact items, and a queue about
// bulk items. It asks the set before it offers an exact item to the queue, and the
// queue then does not ask its filter. The queue stores the end of an exact item in the set, through an
// Output, before it completes the item. It is safe for concurrent use.
//
// After a crash, the set can have waiting items that the queue does not have. Only a
// Forwarder queues them, and a crawl does not end while there are such items. So at least
// one Forwarder must run, in any process.
type Store struct {
	Queue
	cfg    Config
	leases leases
	// idleSince is when the queue was first found empty although the set had waiting keys or
	// was unavailable. nil means that the queue is not idle. If the queue is idle for long,
	// the callers that had to queue these keys must have failed.
	idleSince atomic.Pointer[time.Time]
}

var _ Queue = (*Store)(nil)

// New returns a Store.
func New(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{Queue: cfg.Queue, cfg: cfg}
}

// Add implements frontier.Store. If links contain exact items and the set is away, Add
// returns ErrUnavailable. After any other error, a forwarder queues the items that are new
// according to the set.
func (s *Store) Add(ctx context.Context, links []frontier.Offer) ([]frontier.Verdict, error) {
	if !hasExact(links) {
		return s.Queue.Add(ctx, links)
	}
	mine := s.exactOf(links)
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
	answers := queueAnswers{}
	for i := range mine.links {
		answers.setWaits(mine, i, verdicts[i].Answer != frontier.Refused)
	}
	if s.cfg.Now().Sub(d.at) > freshFor {
		answers.dropRefused()
	}
	s.settle(ctx, answers)
	return verdicts, nil
}

// Where returns the state of a canonical URL in the set.
func (s *Store) Where(ctx context.Context, url string) (Status, error) {
	return s.cfg.Set.Lookup(ctx, s.cfg.Hasher.Fingerprint(url))
}

// isExact reports whether the set decides about an offer. It does not decide about offers that the
// queue refuses in any case.
func isExact(it *frontier.Offer) bool {
	return it.Class != frontier.Bulk && it.URL != "" && len(it.URL) <= frontier.MaxURLBytes &&
		it.Host != "" && it.Priority < frontier.Priorities
}

// hasExact reports whether the set decides about any of the links.
func hasExact(links []frontier.Offer) bool {
	return slices.ContainsFunc(links, func(link frontier.Offer) bool { return isExact(&link) })
}

// offers are links that are offered together. prints has an element for each link: the
// fingerprint of an exact link, or the zero value.
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

// decisions are the set's answers to one call of Decide.
type decisions struct {
	of map[bloomstore.Fingerprint]decided
	at time.Time // not later than the set's decision
}

// decided is the set's answer about one key, in the form that the queue uses.
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

// Retry implements frontier.Control. The set must know all rounds of an exact URL, so that no
// two records of the URL have the same round. Therefore Retry asks the set about each failed
// exact item:
//   - If the set has begun a later round of the URL, the item stays failed.
//   - If the window of the URL is over, Retry offers the URL to the set, which begins its next
//     round. The item of the earlier round stays failed, and the offer counts in Books.Added.
//   - Otherwise the queue begins the next round, and the set learns of that round when the item
//     ends. So the queue is at most one round ahead of the set. If the key is swept meanwhile,
//     the set does not learn of this round, but never gives it to the URL: see Set.Sweep.
func (s *Store) Retry(ctx context.Context, host string) (int, error) {
	offered := 0
	n, err := s.RetryUnless(ctx, host, func(ctx context.Context, it *frontier.Item) (outdated bool, err error) {
		key, err := s.cfg.Set.Lookup(ctx, it.Fingerprint)
		if err != nil {
			return false, fmt.Errorf("exact: look up the round of %s: %w", it.URL, err)
		}
		finished := key.State == Done || key.State == Failed
		over := key.State == Unknown || finished && !key.Forever && key.SeenFor == 0
		switch {
		case key.State != Unknown && key.Round != it.Round:
			return true, nil
		case !over:
			return false, nil
		}
		verdicts, err := s.Add(ctx, []frontier.Offer{it.Offer()})
		if err == nil && verdicts[0].Answer == frontier.Added {
			offered++
		}
		return true, err
	})
	return n + offered, err
}

// decided converts the set's answer about a key of this class to the form that the queue
// uses.
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

// isNew reports whether an offer with this decision is queued.
func isNew(decision frontier.Decision) bool {
	return decision == frontier.New || decision == frontier.Promoted || decision == frontier.Again
}

// The caller of Decide must offer a new key to the queue within freshFor, or not at all. After
// staleAfter, a forwarder offers the keys that are still pending.
const (
	freshFor   = 10 * time.Second
	staleAfter = time.Minute
)

// apply stores the decisions in the exact offers. If the decisions are older than freshFor, new
// keys count as known, because a forwarder offers them.
func (d decisions) apply(target offers, now time.Time) {
	stale := now.Sub(d.at) > freshFor
	for i := range target.links {
		it := &target.links[i]
		if !isExact(it) {
			continue
		}
		answer := d.of[target.prints[i]]
		if it.Decision, it.Round = answer.decision, answer.round; stale && isNew(it.Decision) {
			it.Decision = frontier.Known
		}
	}
}

// queueAnswers are the queue's answers to new keys: true if the key waits in the queue.
type queueAnswers map[Ref]bool

// setWaits stores whether the offer with index i waits in the queue. A key that was
// offered several times waits if the queue accepted one of the offers.
func (a queueAnswers) setWaits(of offers, i int, waits bool) {
	if it := &of.links[i]; isExact(it) && isNew(it.Decision) {
		ref := Ref{of.prints[i], it.Round}
		a[ref] = a[ref] || waits
	}
}

// dropRefused removes the refused keys. A forwarder might have offered these keys meanwhile,
// and got another answer.
func (a queueAnswers) dropRefused() {
	maps.DeleteFunc(a, func(_ Ref, waits bool) bool { return !waits })
}

// settle stores in the set which new keys the queue has, and which it refused. If that
// fails, the keys stay pending, and a forwarder handles them later.
func (s *Store) settle(ctx context.Context, answers queueAnswers) {
	if len(answers) == 0 {
		return
	}
	var queued, refused []Ref
	for ref, waits := range answers {
		if waits {
			queued = append(queued, ref)
		} else {
			refused = append(refused, ref)
		}
	}
	if len(queued) > 0 {
		s.logFailure(ctx, "queued keys not marked", s.cfg.Set.Queued(ctx, queued))
	}
	if len(refused) > 0 {
		s.logFailure(ctx, "refused keys not withdrawn", s.cfg.Set.Withdraw(ctx, refused))
	}
	crash.Point("marked")
}

func (s *Store) logFailure(ctx context.Context, what string, err error) {
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, what, slog.Any("err", err))
	}
}
