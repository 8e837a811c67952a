package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// Readmit says which URLs are let in again.
type Readmit struct {
	URLs []string `json:"urls,omitempty"`
	Rule string   `json:"rule,omitempty"` // of URLs with records: hosts and a regular expression, as policy.ParseTarget takes them; empty means none
	Dry  bool     `json:"dry,omitempty"`  // change nothing, only count
}

// Readmission counts URLs by what Handle.Readmit found.
type Readmission struct {
	Dropped    uint64 `json:"dropped"`    // waiting URLs that were dropped first, or with Readmit.Dry would be
	Readmitted uint64 `json:"readmitted"` // including those that were dropped, unless Dry is set
	Waiting    uint64 `json:"waiting"`    // workers have them, or they wait for another attempt; unchanged
	NeverSeen  uint64 `json:"never_seen"` // the crawl does not know them
}

// readmitQuestion is a step of Handle.Readmit.
type readmitQuestion struct {
	Readmit
	Drop   bool             `json:"drop"`   // drop what waits, and readmit nothing
	Offers []frontier.Offer `json:"offers"` // further URLs to readmit
}

// Readmit lets URLs in again: if one of them is found or submitted later, it is queued for another round, once. Of the
// URLs, those that wait are dropped first, with a record and without a request. No other URL is let in. Readmit queues
// nothing itself. It refuses URLs that crawler block or crawler drop selects, before it changes anything; those that a Rule
// selects are left out. A call that was interrupted can be repeated. If no process runs the crawl, this process is its worker
// meanwhile; it is a further one of a crawl in Redis. With an error, Readmit also returns the counts until then.
func (h *Handle) Readmit(ctx context.Context, of Readmit) (sum Readmission, err error) {
	release, err := h.keep(ctx, engine.ToCrawl)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, release()) }()
	step := func(q readmitQuestion) error {
		n, err := ask(ctx, h, verbReadmit, q)
		sum.Dropped += n.Dropped
		sum.Readmitted += n.Readmitted
		sum.Waiting += n.Waiting
		sum.NeverSeen += n.NeverSeen
		return err
	}
	if err := step(readmitQuestion{Readmit: of, Drop: true}); err != nil {
		return sum, err
	}
	if len(of.URLs) > 0 {
		if err := step(readmitQuestion{Readmit: Readmit{URLs: of.URLs, Dry: of.Dry}}); err != nil {
			return sum, err
		}
	}
	if of.Rule == "" {
		return sum, nil
	}
	t, err := policy.ParseTarget(of.Rule)
	if err != nil {
		return sum, fmt.Errorf("%w: %q: %w", ErrRefused, of.Rule, err)
	}
	var offers []frontier.Offer
	queue := func() error {
		err := step(readmitQuestion{Readmit: Readmit{Dry: of.Dry}, Offers: offers})
		offers = offers[:0]
		return err
	}
	err = h.Snapshot(ctx, Selection{Once: true}, func(lines record.Lines) error {
		for r, err := range parsed[record.Record](lines) {
			if err != nil {
				return err
			}
			item, err := finishedItem(&r)
			if err != nil {
				return err
			}
			if !t.Selects(&item.Offer, "") {
				continue
			}
			if offers = append(offers, item.Offer); len(offers) == recheckStep {
				if err := queue(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || len(offers) == 0 {
		return sum, err
	}
	return sum, queue()
}

// readmit implements a step of Handle.Readmit.
func (ses *session) readmit(ctx context.Context, q readmitQuestion) (sum Readmission, err error) {
	offers := slices.DeleteFunc(q.Offers, func(o frontier.Offer) bool { return ses.refusesReadmitted(&o) != nil })
	named := make(map[string]bool)
	for _, raw := range q.URLs {
		url, err := ses.plan.canon.Parse(raw)
		if err != nil {
			return sum, fmt.Errorf("%w: %q: %w", ErrRefused, raw, err)
		}
		if !named[url.String()] {
			offer := frontier.Offer{URL: url.String(), Host: ses.plan.canon.HostKey(url)}
			if err := ses.refusesReadmitted(&offer); err != nil {
				return sum, err
			}
			offers = append(offers, offer)
		}
		named[url.String()] = true
	}
	if q.Drop {
		sum.Dropped, err = ses.dropReadmitted(ctx, &q, offers, named)
		return sum, err
	}
	found, err := ses.engine.Readmit(ctx, offers, q.Dry)
	for _, f := range found {
		switch f {
		case frontier.Readmitted:
			sum.Readmitted++
		case frontier.Waits:
			sum.Waiting++
		case frontier.NeverSeen:
			sum.NeverSeen++
		}
	}
	return sum, err
}

// refusesReadmitted returns an error if the policy refuses links to a URL, so that it would not be queued.
func (ses *session) refusesReadmitted(offer *frontier.Offer) error {
	rule, reason := ses.plan.policy.Load().Refusal(offer, ses.engine.Hasher().Fingerprint(offer.URL), ses.plan.exact.Name)
	if rule == "" {
		return nil
	}
	end := "'crawler block --undo' ends the block"
	if reason != frontier.ReasonBlockRule {
		end = "'crawler set drop-=RULE' ends it"
	}
	return fmt.Errorf("%w: %q: the policy %s; %s", ErrRefused, offer.URL, rule, end)
}

// dropReadmitted drops the waiting items of a Readmit, or only counts them.
func (ses *session) dropReadmitted(ctx context.Context, q *readmitQuestion, offers []frontier.Offer, named map[string]bool) (dropped uint64, err error) {
	var t policy.Target
	hosts := make(map[string]bool)
	for i := range offers {
		hosts[offers[i].Host] = true
	}
	if q.Rule != "" {
		if t, err = policy.ParseTarget(q.Rule); err != nil {
			return 0, fmt.Errorf("%w: %q: %w", ErrRefused, q.Rule, err)
		}
	}
	selects := func(item *frontier.Item) bool {
		offer := item.Offer()
		return named[item.URL] || q.Rule != "" && t.Selects(&offer, "")
	}
	if q.Dry {
		r, err := reach(ctx, ses.engine, "", func(item *frontier.Item) bool { return selects(item) })
		return r.URLs, err
	}
	sum, err := ses.dropIn(ctx, "", func(host string) bool { return hosts[host] || q.Rule != "" && t.SelectsHost(host) }, selects,
		func(ctx context.Context, host string, most uint64) (uint64, error) {
			return ses.worker.DropIf(ctx, host, most, func(item *frontier.Item) string {
				if selects(item) {
					return "crawler readmit drops it, and lets it in again"
				}
				return ""
			})
		})
	return sum.URLs, err
}
