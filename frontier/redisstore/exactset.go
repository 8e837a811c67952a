package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// decisionLetters has, for each kind of decision of the exact set, the letter that tells add.lua
// what to do. A crawl whose exact keys are not in Postgres has no exact set, so its exact items
// are Undecided. Only lines of submissions are Known to add.lua. Then add.lua decides about them with partition.exact, a set in Redis.
var decisionLetters = [...]string{exact.Undecided: "x", exact.Known: "k", exact.New: "n", exact.Promoted: "p", exact.Again: "r"}

// answer returns the verdict on an offer that needs no server. If the offer needs a server, as in a partition with readmitted items,
// the result answered is false.
func (s *Store) answer(it *frontier.Offer, decision exact.Decision, known *exceptions) (v frontier.Verdict, answered bool, err error) {
	if reason := refusal(it); reason != "" {
		return frontier.Verdict{Answer: frontier.Refused, Reason: reason}, true, nil
	}
	decided, wanted := decision.Kind != exact.Undecided, s.cfg.Exact != nil && (it.Class != frontier.Bulk || decision.Kind == exact.Again)
	switch {
	case decided != wanted:
		return v, false, fmt.Errorf("redisstore: %q of class %d comes with decision %d of an exact set", it.URL, it.Class, decision.Kind)
	case decision.Kind == exact.Known && !known.some[s.partition(it.Host).number].Load():
		return frontier.Verdict{Answer: frontier.Seen}, true, nil
	}
	return v, false, nil
}

// validAnswers reports, by index, which answers are still valid. Only the answer to an offer
// that the exact set has decided can be valid. Such an answer is valid if it is a refusal, if
// it needed no server, or if its epoch has not ended. Seen is valid only if also nothing was readmitted since.
//
// validAnswers also returns the decisions for the next try. In these, an offer whose answer is
// valid has the decision Known. With the decision New, an item that was finished in the
// meantime would be queued again.
func (s *Store) validAnswers(decided []exact.Decision, before answers) (next []exact.Decision, valid []bool) {
	next, valid = slices.Clone(decided), make([]bool, len(before.verdicts))
	for i := range decided {
		if decided[i].Kind == exact.Undecided {
			continue
		}
		p, verdict := before.parts[i], before.verdicts[i]
		if verdict.Answer == frontier.Seen && before.known != s.known.Load() {
			continue
		}
		if p != nil && verdict.Answer != frontier.Refused {
			if ep := before.epochs[p]; ep == nil || ep.node.epoch.Load() != ep {
				continue
			}
		}
		valid[i], next[i].Kind = true, exact.Known
	}
	return next, valid
}

// decisionAt returns the decision about the i-th offer. decided is nil if all offers are undecided.
func decisionAt(decided []exact.Decision, i int) exact.Decision {
	if decided == nil {
		return exact.Decision{}
	}
	return decided[i]
}

// exactPrint returns the fingerprint of an exact item if there is an exact set, otherwise "".
// With an exact set, partition.exact contains the fingerprint while the item is queued or
// leased. So it does for a bulk item of a later round.
func (s *Store) exactPrint(it *frontier.Item) any {
	if s.cfg.Exact == nil || it.Class == frontier.Bulk && it.Round == 0 {
		return ""
	}
	return it.Fingerprint[:]
}

// Waits implements exact.Queue.
func (s *Store) Waits(ctx context.Context, keys []exact.ItemKey) ([]bool, error) {
	members, err := pipelined(ctx, s.client, keys, func(pipe redis.Pipeliner, key exact.ItemKey) *redis.BoolCmd {
		return pipe.SIsMember(ctx, s.partition(key.Host).exact, key.Fingerprint[:])
	})
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	waits := make([]bool, len(keys))
	for i, member := range members {
		waits[i] = member.Val()
	}
	return waits, nil
}

// newExactFiller empties the sets of queued and leased exact items, and returns a filler that adds
// fingerprints to them.
func (r *rebuild) newExactFiller(ctx context.Context) (*filler, error) {
	for _, p := range r.parts {
		if err := r.client.Unlink(ctx, p.exact).Err(); err != nil {
			return nil, r.classify(ctx, err)
		}
	}
	return newFiller(r.parts, func(ctx context.Context, p *partition, prints []bloomstore.Fingerprint) error {
		members := make([]any, len(prints))
		for i := range prints {
			members[i] = prints[i][:]
		}
		return r.classify(ctx, r.client.SAdd(ctx, p.exact, members...).Err())
	}), nil
}
