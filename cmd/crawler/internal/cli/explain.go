package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/explain"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newExplain says why a URL was, or was not, crawled.
func newExplain(s streams) *cobra.Command {
	var crawl target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain URL [--dir DIR | --redis URL --name NAME] [--json] [--out FILE]",
		Short: "Say why a URL was, or was not, crawled",
		Long: `Say why a URL was, or was not, crawled: its canonical form, what each rule,
robots.txt and the filter answer, where it waits, its outcome, and who named it.
It works for URLs that the crawl never saw, and requests nothing.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want one URL", len(args))
			}
			return nil
		},

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		at, err := crawl.existing(ctx)
		if err != nil {
			return err
		}
		e := new(explain.Explanation)
		err = lookAtCrawl(ctx, at, s,
			func() error { return callControl(ctx, at.dir, "GET", "/explain?url="+url.QueryEscape(args[0]), nil, e) },
			func(ses *session) error {
				e, err = ses.explain(ctx, args[0], false)
				return err
			})
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(s.out).Encode(e)
		}
		_, err = e.WriteTo(s.out)
		return err
	}
	return cmd
}

func (ses *session) handleExplain(w http.ResponseWriter, r *http.Request) {
	e, err := ses.explain(r.Context(), r.URL.Query().Get("url"), true)
	reply(w, e, err)
}

// explain says all that is known of a URL. Which addresses are dialled is a
// matter of a run: without one it stays unsaid.
func (ses *session) explain(ctx context.Context, raw string, running bool) (*explain.Explanation, error) {
	one := located{engine: ses.store}
	if url, err := ses.canon.ParseSeed(raw); err == nil {
		if one.at, err = ses.store.locate(ctx, ses.canon.HostKey(url), url.String()); err != nil {
			return nil, err
		}
	} // else Explain says what is wrong with it
	rules, now := ses.hostRules(ses.options), time.Now()
	sources := explain.Sources{
		Canon: ses.canon, Scope: ses.store, Quota: ses.store, Inspector: one, Fingerprint: ses.store.Hasher().Fingerprint, Now: now,
		Rules: explain.Rules(ses.linkRules()),
		Exact: ses.options.exact.Rules,
		Given: one.at.known, More: one.hostLimit, Layers: one.layers, Queue: one.queue,
		Robots: func(_ context.Context, url canon.URL) (*robots.State, error) {
			return fetcher.RobotsOf(one.at.hostBlob, url.Origin(), now)
		},
		CheckPort:    ses.client.CheckPort,
		IgnoreRobots: func(host string) bool { return rules(host).IgnoreRobots },
	}
	var err error
	if sources.HostFailure, err = fetcher.CauseOf(one.at.hostBlob); err != nil {
		return nil, err
	}
	if one.at.records != nil {
		sources.Trail = one.at.records.Trail
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
	engine
	at location
}

// Lookup answers for the URL that was located, the only one that is asked for.
func (l located) Lookup(context.Context, string, string) (frontier.Status, error) {
	return l.at.Status, nil
}

func (l located) queue(context.Context, string, string) (explain.Queue, error) {
	return l.at.queue, nil
}

func (l located) layers(context.Context, string) ([]explain.Layer, error) {
	return l.at.layers, nil
}

// hostLimit is the rule of --max-per-host, which the filter comes before.
func (l located) hostLimit(context.Context, canon.URL) ([]explain.Check, error) {
	if l.at.hostMost == 0 {
		return nil, nil
	}
	c := explain.Check{
		Rule: "host limit", Answer: explain.Passes, Setting: fmt.Sprintf("--max-per-host %d", l.at.hostMost),
		Words: fmt.Sprintf("%s of its host so far, at most %s are queued", human.Plural(l.at.hostAdded, "URL"), human.Commas(l.at.hostMost)),
	}
	if l.at.hostAdded >= l.at.hostMost && !l.at.InFilter {
		c.Answer, c.Reason = explain.Refuses, frontier.ReasonHostLimit
	}
	return []explain.Check{c}, nil
}
