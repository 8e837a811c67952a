package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// adder is the part of a Store that adds items.
type adder struct {
	seen  *seenCache // nil means that there is no cache
	added string     // field of partition.meta that counts the items that this worker adds

	// acknowledged counts, by partition, the items for which this process got the answer Added.
	acknowledged []atomic.Uint64
	ledger       ledger     // of a worker
	comparing    sync.Mutex // held while the ledger is compared with the servers
	known        atomic.Pointer[exceptions]
	learning     sync.Mutex   // held while known is read from the servers
	queued       atomic.Int64 // approximate number of queued items of the crawl; only with Config.MaxQueued
}

// changeEpoch calls startEpoch, which starts a new epoch of a server. It also drops all answers
// that this process has cached, and what it knows of readmissions.
func (s *Store) changeEpoch(startEpoch func()) {
	s.seen.change(func() {
		s.known.Store(nil)
		startEpoch()
	})
	s.forgetKeys()
}

// ask is one offer that a server must answer.
type ask struct {
	item     frontier.Item // to queue, if it is new
	delay    time.Duration
	decision exact.Kind
	later    bool // see exact.Decision
	index    int  // index among its caller's offers
	print    bloomstore.Fingerprint
	host     bloomstore.Fingerprint // fingerprint of the host key
	part     *partition
	exact    bool
	asked    bool           // its partition can have readmitted items, so the server was asked whether it is one of them
	let      bool           // the answer was that it is
	sampled  bool           // is in the shadow sample
	link     bool           // is refused if the queue is full
	owed     bool           // was answered Added before, so no limit refuses it
	full     bool           // the queue is full, and the exact set has decided: add.lua refuses the item, unless it is queued or leased
	next     *ask           // the next offer of the same URL in the group
	test     *redisbits.Ask // the look-up of the URL in the filter; set if the script must decide whether the item is new
	edit     *edit          // the change that adds the item to the filter; not used if the filter claims to contain the item
	epoch    *epoch         // the epoch in which the server gave the verdict
	verdict  frontier.Verdict
	err      error
	line     line          // of a submission
	copies   int           // how many other lines of the chunk have the same URL; counted with the verdict on this one
	ttl      time.Duration // of the verdict on a line
	certain  bool          // the host of the line is known to be no host of a seed, so its limit counts
	of       *offering
	done     bool // it has a verdict or an error; used by the group only
}

// answers are the verdicts on items that were offered together.
type answers struct {
	verdicts []frontier.Verdict
	parts    []*partition // the partition of each item; nil if no server was asked
	// epochs has the epoch of each partition's node. The verdicts of a partition are valid
	// until that epoch ends. A nil epoch means that they are not valid any more.
	epochs map[*partition]*epoch
	// known is what the process knew of readmissions. Seen is valid while the generations are the same on the servers. nil
	// means that there were no offers.
	known *exceptions
	// counted are the indexes of lines of submissions, whose verdicts add.lua counts.
	counted []int
}

// Add implements frontier.Store. If a server is out of memory, the error matches both
// frontier.ErrUnavailable and frontier.ErrFull. With Config.Wait, Add also returns an error
// if too few replicas confirm the added items in time. If offers are exact and the exact set is away, Add returns
// frontier.ErrUnavailable. After any other error, a forwarder queues the items that are new according to the set.
func (s *Store) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	if s.cfg.Exact == nil {
		return s.AddDecided(ctx, offers, nil)
	}
	decided, err := s.cfg.Exact.Decide(ctx, s.hasher, offers)
	if err != nil {
		return nil, err
	}
	decided = s.cfg.Exact.Fresh(decided)
	verdicts, err := s.AddDecided(ctx, offers, decided.Each)
	if err != nil {
		return nil, err
	}
	crash.Point("offered")
	answers := exact.Answers{}
	s.cfg.Exact.Collect(answers, decided, verdicts)
	s.cfg.Exact.Settle(ctx, answers)
	return verdicts, nil
}

// AddDecided implements exact.Queue.
func (s *Store) AddDecided(ctx context.Context, offers []frontier.Offer, decided []exact.Decision) ([]frontier.Verdict, error) {
	got, err := s.offerNow(ctx, offers, decided)
	if err != nil {
		return nil, err
	}
	if err := s.countOffer(ctx, got); err != nil {
		return nil, err
	}
	if s.cfg.Wait > 0 {
		if err := s.replicated(ctx, got); err != nil {
			return nil, err
		}
	}
	return got.verdicts, nil
}

// replicated returns nil if Config.Wait replicas have the writes that the answers rely on.
func (s *Store) replicated(ctx context.Context, got answers) error {
	confirmed := make(map[*epoch]bool)
	for p, ep := range got.epochs {
		if ep == nil {
			return errEpoch
		}
		if confirmed[ep] {
			continue
		}
		if err := s.confirm(ctx, ep, p); err != nil {
			return err
		}
		confirmed[ep] = true
	}
	return nil
}

// offer decides on offers, and queues those that are new. It counts the added ones. The
// caller must count the others (see counts.verdicts).
//
// If links is true, offers are refused while the queue is full, and can be answered from
// this process's cache. The caller must then check that the answers are still valid.
func (s *Store) offer(ctx context.Context, offers []frontier.Offer, decided []exact.Decision, links bool) (answers, error) {
	return s.offerOwed(ctx, offers, decided, links, nil)
}

// offerOwed does what offer does. If before is not nil, it has an earlier verdict of each offer,
// and no limit refuses an offer whose earlier verdict is Added.
func (s *Store) offerOwed(ctx context.Context, offers []frontier.Offer, decided []exact.Decision, links bool, before []frontier.Verdict) (answers, error) {
	got := answers{
		verdicts: make([]frontier.Verdict, len(offers)),
		parts:    make([]*partition, len(offers)),
		epochs:   make(map[*partition]*epoch),
	}
	if len(offers) == 0 {
		return got, nil
	}
	var err error
	if got.known, err = s.exceptions(ctx); err != nil { // before the cache is read, because a new generation empties the cache
		return answers{}, err
	}
	asks := make(map[*node]*offering)
	for i := range offers {
		it, decision := &offers[i], decisionAt(decided, i)
		verdict, answered, err := s.answer(it, decision, got.known)
		if err != nil {
			return answers{}, err
		}
		if answered {
			got.verdicts[i] = verdict
			continue
		}
		a := s.newAsk(it, decision)
		a.index = i
		a.owed = before != nil && before[i].Answer == frontier.Added
		a.link = links && !a.owed
		if a.line.chunk != "" { // of a forwarder
			a.ttl = forwardedTTL
			got.counted = append(got.counted, i)
		}
		n, err := s.nodeOf(ctx, a.part)
		if err != nil {
			return answers{}, err
		}
		got.parts[i] = a.part
		ep := n.epoch.Load() // loaded before the cache is read, because a new epoch empties the cache
		if links && !a.exact && !a.sampled && s.seen.has(a.print) {
			got.verdicts[i] = frontier.Verdict{Answer: frontier.Seen}
			got.rely(a.part, ep)
			continue
		}
		if asks[n] == nil {
			room := 0
			if s.nodes.single != nil {
				room = len(offers) - i
			}
			asks[n] = newOffering(room)
		}
		asks[n].asks = append(asks[n].asks, a)
	}
	for n, o := range asks {
		o.group = n.offers.Add(o, o.size())
	}
	for _, o := range asks {
		if err := o.wait(ctx); err != nil {
			return answers{}, err
		}
		if err := s.take(&got, o); err != nil {
			return answers{}, err
		}
	}
	return got, nil
}

// newAsk returns the ask of an offer.
func (s *Store) newAsk(it *frontier.Offer, decision exact.Decision) ask {
	a := ask{print: s.hasher.Fingerprint(it.URL), host: s.hasher.Fingerprint(it.Host)}
	a.part = s.partitionAt(it.Host, a.host)
	a.exact, a.sampled = it.Class != frontier.Bulk || decision.Kind == exact.Again, a.print.Sampled()
	a.item, a.delay, a.decision = it.Item(a.print), it.Delay, decision.Kind
	a.item.Added = s.moment()
	a.item.Round, a.later = decision.Round, decision.Later
	a.line.chunk, a.line.number, _ = exact.ParseLine(decision.Line)
	return a
}

// forwardedTTL is how long the verdict on a line is kept that a forwarder offers.
const forwardedTTL = 24 * time.Hour

// take copies the verdicts of an offering. An item without a verdict is an error, because it
// would be lost if it counted as seen.
func (s *Store) take(got *answers, o *offering) error {
	for i := range o.asks {
		a := &o.asks[i]
		if a.verdict.Answer == 0 {
			return fmt.Errorf("redisstore: no verdict on %q", a.item.URL)
		}
		got.verdicts[a.index] = a.verdict
		got.rely(a.part, a.epoch)
	}
	return nil
}

// acknowledge counts an item that this process added. The argument number is the number of items
// that it has added to the partition, according to the partition.
func (s *Store) acknowledge(a *ask, ep *epoch, number uint64) {
	s.acknowledged[a.part.number].Add(1)
	if s.number > 0 {
		s.ledger.add(a.part, ep, number, a.print)
	}
}

// rely records that an answer depends on an epoch of its partition's node.
func (got *answers) rely(p *partition, ep *epoch) {
	if before, ok := got.epochs[p]; ok && before != ep {
		ep = nil // the two epochs differ, so one of them is over
	}
	got.epochs[p] = ep
}

// offerAgain repeats offers, such as links, whose answers might not be valid any more, and returns the
// current answers. An offer that was answered Added before keeps that answer. If the server has
// lost the item, it is queued again, even if a limit has been reached meanwhile.
func (s *Store) offerAgain(ctx context.Context, offers []frontier.Offer, decided []exact.Decision, before answers, links bool) (answers, error) {
	decided, valid := s.validAnswers(decided, before)
	got, err := s.offerOwed(ctx, offers, decided, links, before.verdicts)
	if err != nil {
		return answers{}, err
	}
	got.counted = append(got.counted, before.counted...)
	for i := range offers {
		if valid[i] {
			got.verdicts[i], got.parts[i] = before.verdicts[i], before.parts[i]
			if p := got.parts[i]; p != nil {
				got.rely(p, before.epochs[p])
			}
			continue
		}
		if before.verdicts[i].Answer == frontier.Added {
			got.verdicts[i] = before.verdicts[i]
		}
	}
	return got, nil
}

// refusal returns the reason to refuse an offer that no store accepts, or "".
func refusal(it *frontier.Offer) frontier.Reason {
	switch {
	case len(it.URL) > frontier.MaxURLBytes:
		return frontier.ReasonTooLong
	case it.URL == "" || it.Host == "" || strings.IndexByte(it.Host, 0) >= 0 || it.Priority >= frontier.Priorities:
		return frontier.ReasonMalformed
	}
	return ""
}

// counts are amounts that a step adds to counters of partition.meta, by field.
type counts map[string]uint64

func (c counts) add(field string, n uint64) {
	if n > 0 {
		c[field] += n
	}
}

// The methods seen and refused count offers that were not added.
func (c counts) seen(n uint64) {
	c.add(fieldOther, n)
	c.add(fieldSeen, n)
}

func (c counts) refused(reason frontier.Reason, n uint64) {
	c.add(fieldOther, n)
	c.add(fieldRefused+string(reason), n)
}

// verdicts counts the verdicts that add.lua does not count: all seen and refused ones.
func (c counts) verdicts(verdicts []frontier.Verdict) {
	for _, v := range verdicts {
		switch v.Answer {
		case frontier.Seen:
			c.seen(1)
		case frontier.Refused:
			c.refused(v.Reason, 1)
		}
	}
}

// appendTo appends each field and its amount to the arguments of a script.
func (c counts) appendTo(args []any) []any {
	for field, n := range c {
		args = append(args, field, n)
	}
	return args
}

// countOffer counts the verdicts of a call of Add, except Added. It counts all of them in one
// partition, that of the first item about which a server was asked. After an error it is
// unknown whether they were counted.
func (s *Store) countOffer(ctx context.Context, got answers) error {
	sum := make(counts)
	verdicts := got.verdicts
	if got.counted != nil {
		verdicts = slices.Clone(verdicts)
		for _, i := range got.counted {
			verdicts[i] = frontier.Verdict{}
		}
	}
	sum.verdicts(verdicts)
	if len(sum) == 0 {
		return nil
	}
	first := slices.IndexFunc(got.parts, func(p *partition) bool { return p != nil })
	p := s.parts[0]
	if first >= 0 {
		p = got.parts[first]
	}
	n, err := s.nodeOf(ctx, p)
	if err != nil {
		return err
	}
	cmds, err := n.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for field, n := range sum {
			tx.HIncrBy(ctx, p.meta, field, int64(n))
		}
		return nil
	})
	if err = txError(cmds, err); err != nil {
		s.misplaced(ctx, p, err)
	}
	return s.classify(ctx, err)
}

// beginSums sums the queued items once before it returns, and then every second, while there is a
// limit of queued items.
func (s *Store) beginSums(ctx context.Context) error {
	if err := s.sumQueued(ctx); err != nil {
		return err
	}
	return s.spawn(func(ctx context.Context) {
		for sleep(ctx, time.Second) == nil {
			if err := s.sumQueued(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.DebugContext(ctx, "queue not counted", "err", err)
			}
		}
	})
}

func (s *Store) sumQueued(ctx context.Context) error {
	if s.cfg.Policy().MaxQueued == 0 {
		return nil
	}
	sum, err := s.readTotals(ctx)
	if err == nil {
		s.queued.Store(int64(sum.queued))
	}
	return err
}

// queueFull reports whether links are refused because too many items are queued.
func (s *Store) queueFull() bool {
	most := s.cfg.Policy().MaxQueued
	return most > 0 && s.queued.Load() >= int64(most)
}
