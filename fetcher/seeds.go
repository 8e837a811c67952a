package fetcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// SeedAnswer is the answer to one seed.
type SeedAnswer struct {
	Raw     string // as given
	URL     string // canonical; empty if it has no canonical form
	Verdict frontier.Verdict
	Err     error // why it has no canonical form, or why its port is refused
}

// seedSet has the seeds of a call, parsed.
type seedSet struct {
	answers []SeedAnswer    // with the verdicts of the rules
	lines   []frontier.Line // index for index
	urls    []canon.URL     // the same; zero for a seed that has no canonical form
}

// judgeSeeds parses seeds and applies the rules.
func (c *Crawl) judgeSeeds(raw []string) (set seedSet) {
	p := c.cfg.Policy()
	set = seedSet{make([]SeedAnswer, len(raw)), make([]frontier.Line, len(raw)), make([]canon.URL, len(raw))}
	for i, seed := range raw {
		answer, line := &set.answers[i], &set.lines[i]
		answer.Raw = seed
		url, err := c.cfg.Canon.ParseSeed(seed)
		if err == nil {
			answer.URL, set.urls[i] = url.String(), url
			line.Offer = frontier.Offer{URL: url.String(), Host: c.cfg.Canon.HostKey(url), Priority: frontier.PrioritySeed}
			line.Class = c.cfg.Exact.Class(&line.Offer, exact.BySeed)
			if err = c.cfg.Client.CheckPort(url.Port()); err != nil {
				line.Refused = frontier.ReasonPort
			} else if rule, reason := p.Refusal(&line.Offer, bloomstore.Fingerprint{}, c.cfg.Exact.Name); rule != "" {
				err, line.Refused = fmt.Errorf("version %d of the policy %s", p.Version, rule), reason
			}
		} else {
			line.Refused = reasonOf(err)
		}
		if err != nil {
			answer.Err, answer.Verdict = err, frontier.Verdict{Answer: frontier.Refused, Reason: line.Refused}
		}
	}
	return set
}

// admitSeeds adds the hosts of the seeds that the rules accept to the scope.
func (c *Crawl) admitSeeds(ctx context.Context, set *seedSet) error {
	p := c.cfg.Policy()
	var keys []string
	hosts := map[string]bool{}
	for i, url := range set.urls {
		if set.lines[i].Refused != "" {
			continue
		}
		keys = append(keys, canon.Keys(p.Rules.Scope, url)...)
		if p.SeedsUnlimited {
			keys = append(keys, frontier.SeedHost(set.lines[i].Host))
		}
		if c.cfg.SeedOrigins || c.cfg.sendsPrivate() {
			keys = append(keys, originKeys(url)...)
		}
		hosts[url.Host()] = true
	}
	if len(keys) > 0 {
		if err := c.cfg.Scope.Admit(ctx, keys); err != nil {
			return fmt.Errorf("open the scope of seeds: %w", err)
		}
	}
	if p.Rules.BoundsHosts() && len(hosts) > 0 {
		if err := c.reserveSeeds(ctx, slices.Sorted(maps.Keys(hosts))); err != nil {
			return fmt.Errorf("add the hosts of seeds to those of their domains: %w", err)
		}
	}
	return nil
}

// added stores the verdict on a seed in its answer.
func (c *Crawl) added(answer *SeedAnswer, line *frontier.Line, verdict frontier.Verdict) {
	answer.Verdict = verdict
	if verdict.Reason == frontier.ReasonHostLimit {
		c.tally.count(c.tally.hosts.Full, line.Host, 1)
	}
}

// Seeds offers seeds, adds their hosts to the scope, and returns one answer for each seed,
// in the order of raw. Include and Exclude do not apply to seeds. Seeds may be called while
// Run runs.
func (c *Crawl) Seeds(ctx context.Context, raw []string) ([]SeedAnswer, error) {
	set := c.judgeSeeds(raw)
	var offers []frontier.Offer
	var at []int
	for i := range set.lines {
		if set.lines[i].Refused == "" {
			offers, at = append(offers, set.lines[i].Offer), append(at, i)
		}
	}
	if len(offers) == 0 {
		return set.answers, nil
	}
	if err := c.admitSeeds(ctx, &set); err != nil {
		return nil, err
	}
	verdicts, err := c.cfg.Store.Add(ctx, offers)
	if err != nil {
		return nil, fmt.Errorf("add seeds: %w", err)
	}
	for j, i := range at {
		c.added(&set.answers[i], &set.lines[i], verdicts[j])
	}
	c.Wake()
	return set.answers, nil
}

// Submission is a call of Submit.
type Submission struct {
	frontier.Chunk
	Key   string   // is in the records of the seeds, as submission; empty means none
	Seeds []string // as given to Seeds
	// Judge returns why the caller refuses a seed, or "" if it is offered. A repeat does not call it.
	Judge func(seed int) frontier.Reason
}

// Submit does what Seeds does, once for a Chunk: see frontier.Submitter. A repeat gets the same verdicts, and
// adds nothing. The field Err of an answer is set only for a seed that has no canonical form. If Config.Store is not a
// frontier.Submitter, the error is errors.ErrUnsupported.
func (c *Crawl) Submit(ctx context.Context, s Submission) (answers []SeedAnswer, repeated bool, err error) {
	store, is := c.cfg.Store.(frontier.Submitter)
	if !is {
		return nil, false, errors.ErrUnsupported
	}
	set := c.judgeSeeds(s.Seeds)
	verdicts, repeated, err := store.Answered(ctx, s.Chunk)
	if err == nil && !repeated {
		for i := range set.lines {
			line := &set.lines[i]
			if line.Submission = s.Key; line.Refused == "" {
				line.Refused = s.Judge(i)
			}
		}
		if err := c.admitSeeds(ctx, &set); err != nil {
			return nil, false, err
		}
		verdicts, repeated, err = store.Submit(ctx, s.Chunk, set.lines)
	}
	if err != nil {
		return nil, false, fmt.Errorf("submit seeds: %w", err)
	}
	if len(verdicts) != len(s.Seeds) {
		return nil, false, fmt.Errorf("submit seeds: the store has %d verdicts on %d seeds", len(verdicts), len(s.Seeds))
	}
	for i := range set.answers {
		if set.answers[i].URL != "" {
			set.answers[i].Err = nil
		}
		if repeated {
			set.answers[i].Verdict = verdicts[i]
		} else {
			c.added(&set.answers[i], &set.lines[i], verdicts[i])
		}
	}
	c.Wake()
	return set.answers, repeated, nil
}
