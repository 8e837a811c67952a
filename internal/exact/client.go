package exact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Client is a store's access to a set. The store calls Decide before it offers exact items to its queue,
// which then does not ask its filter about them, and Settle when their answers are final. Before the store completes
// an exact item, it gives the end of the item to End, and syncs the output that stores it.
//
// After a crash, the set can have waiting items that the queue does not have. Only a
// Forwarder queues them, and a crawl does not end while there are such items. So at least
// one Forwarder must run, in any process.
//
// The fields must not change after the first call of a method. The methods are safe for concurrent use.
type Client struct {
	Set   *Breaker
	Err   error // with a nil Set: why this process has none; all calls return it
	Rules *Rules
	End   func([]Finished) // Output.End of the worker's output; nil means that the process completes nothing
	Now   func() time.Time // for tests; nil means time.Now
	Log   *slog.Logger     // nil discards

	// idleSince is when the queue was first found empty although the set had waiting keys or
	// was unavailable. nil means that the queue is not idle. If the queue is idle for long,
	// the callers that had to queue these keys must have failed.
	idleSince atomic.Pointer[time.Time]
}

// The caller of Decide must offer a new key to the queue within freshFor, or not at all. After
// staleAfter, a forwarder offers the keys that are still pending.
const (
	freshFor   = 10 * time.Second
	staleAfter = time.Minute
)

func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Ready returns nil if the set answers, as far as is known: see Breaker.Ready.
func (c *Client) Ready(ctx context.Context) error {
	if c.Set == nil {
		return c.Err
	}
	return c.Set.Ready(ctx)
}

// Decide asks the set about the exact ones of the offers. It does not ask if none is exact.
func (c *Client) Decide(ctx context.Context, hasher bloomstore.Hasher, offers []frontier.Offer) (Decisions, error) {
	return c.DecideLines(ctx, hasher, offers, nil)
}

// DecideLines is like Decide for lines of submissions, whose lines are in the order of the offers. A key is new also if an
// earlier call with its line made it pending: that call perhaps has not offered it.
func (c *Client) DecideLines(ctx context.Context, hasher bloomstore.Hasher, offers []frontier.Offer, lines []string) (d Decisions, err error) {
	if !HasExact(offers) {
		return d, nil
	}
	if c.Set == nil {
		return d, c.Err
	}
	d = Decisions{make([]Decision, len(offers)), c.now()}
	var keys []Key
	index := map[bloomstore.Fingerprint]int{} // in keys
	for i := range offers {
		it := &offers[i]
		if !isExact(it) {
			continue
		}
		print := hasher.Fingerprint(it.URL)
		d.Each[i].Print = print
		if lines != nil {
			d.Each[i].Line = lines[i]
		}
		if _, asked := index[print]; asked {
			continue
		}
		index[print] = len(keys)
		keys = append(keys, Key{Fingerprint: print, URL: it.URL, Class: it.Class, Depth: it.Depth, Hops: it.Hops, Priority: it.Priority, Line: d.Each[i].Line})
	}
	answers, err := c.Set.Decide(ctx, keys)
	if err != nil {
		return Decisions{}, fmt.Errorf("exact: decide about %d URLs: %w", len(keys), err)
	}
	for i := range offers {
		if decision := &d.Each[i]; isExact(&offers[i]) {
			at := index[decision.Print]
			decision.Kind, decision.Round = c.Rules.kind(answers[at], keys[at].Class), answers[at].Round
			decision.Later = decision.Kind.isNew() && !c.Rules.Pure(keys[at].Class)
		}
	}
	crash.Point("decided")
	return d, nil
}

// kind returns the kind of the set's answer about a key of a class.
func (r *Rules) kind(answer Answer, class frontier.Class) Kind {
	switch {
	case !answer.New:
		return Known
	case !answer.First:
		return Again
	case r.Pure(class):
		return New
	default:
		return Promoted
	}
}

// Recheck is for decisions whose offers may have reached the queue before, because an answer was lost. Other workers
// may have finished the new items since. So a new key counts as known now, unless it is still pending. With an error,
// Recheck returns the decisions as they were.
func (c *Client) Recheck(ctx context.Context, d Decisions) (Decisions, error) {
	var failed error
	now := d.Known(func(i int) bool {
		if failed != nil {
			return false
		}
		key, err := c.Set.Lookup(ctx, d.Each[i].Print)
		failed = err
		return key.State != Pending || key.Round != d.Each[i].Round
	})
	if failed != nil {
		return d, failed
	}
	return now, nil
}

// Fresh must be called before offers are made with decisions. If they are older than freshFor, new
// keys count as known, because a forwarder offers them.
func (c *Client) Fresh(d Decisions) Decisions {
	if c.Stale(d) {
		return d.Known(func(int) bool { return true })
	}
	return d
}

// Stale reports whether decisions are too old to make offers with them.
func (c *Client) Stale(d Decisions) bool { return d.Each != nil && c.now().Sub(d.At) > freshFor }

// Answers are the queue's answers to new keys: true if the key waits in the queue.
type Answers map[Ref]bool

// Collect stores the queue's answers to offers. A key that was offered several times waits if the queue accepted one of the
// offers. Late refusals are left out: a forwarder may have offered these keys meanwhile, and got another answer.
func (c *Client) Collect(to Answers, d Decisions, verdicts []frontier.Verdict) {
	late := c.Stale(d)
	for i, decision := range d.Each {
		waits := verdicts[i].Answer != frontier.Refused
		if ref := (Ref{decision.Print, decision.Round}); decision.Kind.isNew() && (waits || !late) {
			to[ref] = to[ref] || waits
		}
	}
}

// Settle stores in the set which new keys the queue has, and which it refused. If that
// fails, the keys stay pending, and a forwarder handles them later.
func (c *Client) Settle(ctx context.Context, answers Answers) {
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
		c.logFailure(ctx, "queued keys not marked", c.Set.Queued(ctx, queued))
	}
	if len(refused) > 0 {
		c.logFailure(ctx, "refused keys not withdrawn", c.Set.Withdraw(ctx, refused))
	}
	crash.Point("marked")
}

func (c *Client) logFailure(ctx context.Context, what string, err error) {
	if err != nil && c.Log != nil {
		c.Log.DebugContext(ctx, what, slog.Any("err", err))
	}
}

// Empty corrects a grant of the queue. If the queue is empty but the set has waiting keys or is
// unavailable, the grant is not Empty, because a forwarder might queue some keys.
func (c *Client) Empty(ctx context.Context, grant *frontier.Grant) error {
	if !grant.Empty {
		c.idleSince.Store(nil)
		return nil
	}
	if c.Set == nil {
		return c.Err
	}
	now := c.now()
	waiting, err := c.Set.Waiting(ctx, bloomstore.Fingerprint{}, 1)
	if errors.Is(err, frontier.ErrUnavailable) || len(waiting) > 0 {
		c.idleSince.CompareAndSwap(nil, &now)
		grant.Empty, grant.Wait = false, max(grant.Wait, time.Second)
		return nil
	}
	return err
}

// idleLonger reports whether the queue has been idle for longer than d. If so, it restarts
// the measurement.
func (c *Client) idleLonger(d time.Duration) bool {
	now, since := c.now(), c.idleSince.Load()
	return since != nil && now.Sub(*since) > d && c.idleSince.CompareAndSwap(since, &now)
}

// AddStatus adds the outcome of a URL that is neither queued, leased nor failed to its status, if the set has it, and
// reports whether the set has the URL. It returns nil if the set is unavailable, or if this process has none.
func (c *Client) AddStatus(ctx context.Context, print bloomstore.Fingerprint, status *frontier.Status) (has *bool, err error) {
	if c.Set == nil {
		return nil, nil
	}
	key, err := c.Set.Lookup(ctx, print)
	if errors.Is(err, frontier.ErrUnavailable) {
		return nil, nil
	}
	if (status.State == frontier.Done || status.State == frontier.Unknown) && (key.State == Done || key.State == Failed) {
		status.State, status.Outcome, status.Status, status.Round = key.Outcome.State(), key.Outcome, key.HTTP, key.Round
	}
	return new(key.State != Unknown), err
}

// Retrying is what a Retry does with a failed exact item.
type Retrying uint8

const (
	RetryItem  Retrying = iota // the queue begins the item's next round
	KeepFailed                 // the set has begun a later round of the URL, so the item stays failed
	OfferAgain                 // the window of the URL is over: the item stays failed, and the URL is offered, so that the set begins its next round
)

// Retry says what to do with a failed exact item. The set must know all rounds of an exact URL, so that no
// two records of the URL have the same round. With RetryItem the set learns of the next round when the item
// ends. So the queue is at most one round ahead of the set, unless the URL can have been a bulk URL (see Decision.Later). If
// the key is swept meanwhile, the set does not learn of this round, but never gives it to the URL: see Set.Sweep.
func (c *Client) Retry(ctx context.Context, it *frontier.Item) (Retrying, error) {
	if c.Set == nil {
		return KeepFailed, c.Err
	}
	key, err := c.Set.Lookup(ctx, it.Fingerprint)
	if err != nil {
		return KeepFailed, fmt.Errorf("exact: look up the round of %s: %w", it.URL, err)
	}
	finished := key.State == Done || key.State == Failed
	switch {
	case key.State != Unknown && key.Round != it.Round:
		return KeepFailed, nil
	case key.State == Unknown || finished && !key.Forever && key.SeenFor == 0:
		return OfferAgain, nil
	}
	return RetryItem, nil
}
