package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/explain"
	"github.com/bloomfrontier/crawler/fetcher/follow"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// explain answers the verb.
func (ses *session) explain(ctx context.Context, url string) (*explain.Explanation, error) {
	return ses.explainWith(ctx, url, ses.monitor != nil)
}

// explainWith says all that is known of a URL. Which addresses are dialled is a
// matter of a run: without one it stays unsaid.
func (ses *session) explainWith(ctx context.Context, raw string, running bool) (*explain.Explanation, error) {
	one := located{Engine: ses.engine}
	if url, err := ses.canon.ParseSeed(raw); err == nil {
		if one.at, err = ses.engine.LocateURL(ctx, ses.canon.HostKey(url), url.String()); err != nil {
			return nil, err
		}
	} // else Explain says what is wrong with it
	rules, now := ses.hosts.rules(ses.Fixed.Robots, ses.policy), time.Now()
	sources := explain.Sources{
		Canon: ses.canon, Scope: ses.engine, Quota: ses.engine, Inspector: one, Fingerprint: ses.engine.Hasher().Fingerprint, Now: now,
		Rules: ses.rules,
		Exact: ses.exact,
		Given: one.at.Given, More: one.hostLimit, Layers: one.layers, Queue: one.queue,
		Robots: func(_ context.Context, url canon.URL) (*robots.State, error) {
			return fetcher.RobotsOf(one.at.HostBlob, url.Origin(), now)
		},
		CheckPort:    ses.client.CheckPort,
		IgnoreRobots: func(host string) bool { return rules(host).IgnoreRobots },
	}
	var err error
	if sources.HostFailure, err = fetcher.CauseOf(one.at.HostBlob); err != nil {
		return nil, err
	}
	if one.at.Records != nil {
		sources.Trail = one.at.Records.Trail
	}
	if running {
		sources.CheckHost = func(ctx context.Context, host string) error {
			ctx, cancel := context.WithTimeout(ctx, lookUpTime)
			defer cancel()
			return ses.client.CheckHost(ctx, host)
		}
	}
	return explain.Explain(ctx, sources, raw)
}

// located is an engine of which one URL was located: what is said of that URL is
// of one moment.
type located struct {
	*engine.Engine
	at engine.URLState
}

// Lookup answers for the URL that was located, the only one that is asked for.
func (l located) Lookup(context.Context, string, string) (frontier.Status, error) {
	return l.at.Status, nil
}

func (l located) queue(context.Context, string, string) (explain.Queue, error) {
	return l.at.Queue, nil
}

func (l located) layers(context.Context, string) ([]explain.Layer, error) {
	return l.at.Layers, nil
}

// hostLimit is the rule of --max-per-host, which the filter comes before.
func (l located) hostLimit(context.Context, canon.URL) ([]explain.Check, error) {
	if l.at.HostMost == 0 {
		return nil, nil
	}
	c := explain.Check{
		Rule: "host limit", Answer: follow.Passes, Setting: fmt.Sprintf("--max-per-host %d", l.at.HostMost),
		Words: fmt.Sprintf("%s of its host so far, at most %s are queued", human.Plural(l.at.HostAdded, "URL"), human.Commas(l.at.HostMost)),
	}
	if l.at.HostAdded >= l.at.HostMost && !l.at.InFilter {
		c.Answer, c.Reason = follow.Refuses, frontier.ReasonHostLimit
	}
	return []explain.Check{c}, nil
}
