package crawl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// explain implements Handle.Explain. The allowed addresses are a setting of a run, so
// explain checks the addresses of the URL's host only while the crawl runs.
func (ses *session) explain(ctx context.Context, raw string) (*Explanation, error) {
	versions, err := ses.engine.History(ctx)
	if err != nil {
		return nil, err
	}
	rules, now := ses.plan.policy.Load().Host, time.Now()
	sources := explain.Sources{
		Canon: ses.plan.canon, Rules: ses.plan.policy.Load().Rules, Scope: ses.engine, Quota: ses.engine, Exact: ses.plan.exact,
		Fingerprint: ses.engine.Hasher().Fingerprint, Now: now,
		Locate: func(ctx context.Context, url canon.URL, host string) (*explain.Located, error) {
			return ses.locate(ctx, url, host, fetcher.ProductToken(rules(host).Header, ses.plan.userAgent()), now)
		},
		CheckPort:    ses.plan.checkPort,
		Since:        func(setting, by string) string { return since(versions, setting, by) },
		IgnoreRobots: func(host string) bool { return rules(host).IgnoreRobots },
	}
	if ses.monitor != nil {
		sources.CheckHost = func(ctx context.Context, host string) error {
			ctx, cancel := context.WithTimeout(ctx, lookUpTime)
			defer cancel()
			return ses.plan.client.CheckHost(ctx, host)
		}
	}
	e, err := explain.Explain(ctx, sources, raw)
	if err == nil {
		err = ses.addCheck(ctx, e)
	}
	return e, err
}

// since implements explain.Sources.Since with the history of the policy.
func since(versions []PolicyVersion, setting, by string) string {
	for _, v := range slices.Backward(versions) {
		for _, c := range v.Changes {
			added := by == "" || slices.Contains(textList(c.To), by) && !slices.Contains(textList(c.From), by)
			if c.Name != setting || !added {
				continue
			}
			words := fmt.Sprintf("version %d of the policy decided that, by %s at %s", v.Number, v.Who, v.Time.Format(time.RFC3339))
			if v.Why != "" {
				words += ": " + v.Why
			}
			return words
		}
	}
	return ""
}

// addCheck adds the state of the URL's check to the verdict on a URL outside the scope.
func (ses *session) addCheck(ctx context.Context, e *Explanation) error {
	if e.Verdict.Reason != frontier.ReasonScope {
		return nil
	}
	url, err := ses.plan.canon.Parse(e.Canonical)
	if err != nil {
		return err
	}
	at, err := ses.engine.LocateURL(ctx, frontier.CheckHost(canon.Domain(url.Host())), frontier.CheckURL(e.Canonical))
	if err != nil {
		return err
	}
	switch {
	case at.State == frontier.Done && at.Outcome != "":
		e.Verdict.Words += "; its check has the result " + at.Outcome.CheckResult()
	case at.State == frontier.Done: // the store keeps no outcome
		e.Verdict.Words += "; it was checked"
	case at.State != frontier.Unknown:
		e.Verdict.Words += "; its check waits"
	}
	return nil
}

// locate returns the state of a URL and of its host in the engine. The argument productToken
// selects the rules of robots.txt.
func (ses *session) locate(ctx context.Context, url canon.URL, host, productToken string, now time.Time) (*explain.Located, error) {
	at, err := ses.engine.LocateURL(ctx, host, url.String())
	if err != nil {
		return nil, err
	}
	stats, err := ses.engine.Stats(ctx)
	if err != nil {
		return nil, err
	}
	failure, err := fetcher.CauseOf(at.HostBlob)
	if err != nil {
		return nil, err
	}
	if at.Trap, err = fetcher.TrapOf(at.HostBlob, url.String(), ses.plan.policy.Load()); err != nil {
		return nil, err
	}
	at.Forgets = stats.Filter.Window != nil
	at.FPR, at.HostFailure, at.More = stats.Filter.FPR, failure, append(ses.hostLimit(&at), ses.dropRules(url.String(), host, &at)...)
	at.Robots = func() (*robots.State, error) { return fetcher.RobotsOf(at.HostBlob, url.Origin(), productToken, now) }
	return &at.Located, nil
}

// dropRules returns the check of the rules of crawler block and crawler drop, if one of them selects a URL.
func (ses *session) dropRules(url, host string, at *engine.URLState) []explain.Check {
	offer := frontier.Offer{URL: url, Host: host, Depth: at.Item.Depth, Class: at.Item.Class}
	rule, reason := ses.plan.policy.Load().Refusal(&offer, ses.engine.Hasher().Fingerprint(url), ses.plan.exact.Name)
	if rule == "" {
		return nil
	}
	return []explain.Check{{Rule: explain.DropRules, Answer: follow.Refuses, Reason: reason, Words: "the policy " + rule}}
}

// hostLimit returns the check of --max-per-host. The frontier applies this limit after it
// has looked up the URL in the filter.
func (ses *session) hostLimit(at *engine.URLState) []explain.Check {
	if at.HostMost == 0 {
		return nil
	}
	c := explain.Check{
		Rule: explain.HostLimit, Answer: follow.Passes, Setting: fmt.Sprintf("--max-per-host %d", at.HostMost),
		Words: fmt.Sprintf("%s of its host so far, at most %s are queued", human.Plural(at.HostAdded, "URL"), human.Commas(at.HostMost)),
	}
	if ses.plan.policy.Load().SeedsUnlimited && at.HostMost == settings.MaxPerLinkedHost {
		c.Setting = "--max-per-host auto"
		c.Words += " of a host that no seed has"
	}
	if at.HostAdded >= at.HostMost && !at.InFilter {
		c.Answer, c.Reason = follow.Refuses, frontier.ReasonHostLimit
	}
	return []explain.Check{c}
}
