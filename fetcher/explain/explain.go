// Package explain says why a URL was, or was not, crawled.
//
// It asks what a crawl would ask, in the same order: the canonical form, the
// rules for links, the filter and the queue, robots.txt, the address guard. It
// also works for URLs that the crawl never saw. It owns the order and the
// words; each answer comes from whoever gives it to the crawl:
//
//	what became of it    Sources.Inspector, Queue, Layers, Trail
//	rules for links      follow.Rules.Trace, the judge that workers ask
//	robots.txt, address  robots.State, get.Client
//
// It changes nothing of the crawl. It does no I/O but through Sources, reads no
// clock, and requests nothing: a robots.txt that is not known stays unknown.
package explain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/follow"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/exact"
)

// Sources are what an explanation is made from. Canon, Inspector, Fingerprint
// and Now are required, Scope unless the rules say canon.ScopeAny; what is nil
// is left out.
type Sources struct {
	Canon       *canon.Canonicalizer
	Rules       follow.Rules
	Scope       frontier.Scope
	Quota       frontier.Quota // required if Rules.MaxHosts is set
	Inspector   frontier.Inspector
	Fingerprint func(url string) bloomstore.Fingerprint // under the crawl's key
	Now         time.Time

	// Exact says which URLs are exact.
	Exact *exact.Rules
	// Given is how many URLs the filter was told to know that were never added
	// (--known).
	Given uint64
	// More are rules that Rules does not know, after them.
	More func(ctx context.Context, url canon.URL) ([]Check, error)
	// Layers says what each layer of the filter answers.
	Layers func(ctx context.Context, url string) ([]Layer, error)
	// Queue says where a URL stands among those of its host.
	Queue func(ctx context.Context, host, url string) (Queue, error)
	// Robots returns what is known of the robots.txt of a URL's origin; nil for
	// nothing.
	Robots func(ctx context.Context, url canon.URL) (*robots.State, error)
	// IgnoreRobots reports whether robots.txt does not count for a host key.
	IgnoreRobots func(host string) bool
	// HostFailure is why the URL's host does not answer; empty if it does, or
	// if that is not known.
	HostFailure string
	// CheckHost returns a *get.AddressError for a host that is not dialled, and
	// another error if it cannot be looked up.
	CheckHost func(ctx context.Context, host string) error
	// CheckPort returns a *get.PortError for a port that is not requested.
	CheckPort func(port string) error
	// Trail returns the record with this id and those of its referrers, as
	// record.Reader.Trail does.
	Trail func(id string) ([]record.Record, error)
}

func (s *Sources) check() error {
	var errs []error
	missing := func(is bool, name string) {
		if is {
			errs = append(errs, fmt.Errorf("explain: %s is missing", name))
		}
	}
	missing(s.Canon == nil, "Canon")
	missing(s.Inspector == nil, "Inspector")
	missing(s.Fingerprint == nil, "Fingerprint")
	missing(s.Now.IsZero(), "Now")
	missing(s.Quota == nil && s.Rules.BoundsHosts(), "Quota")
	missing(s.Scope == nil && s.Rules.Scope != canon.ScopeAny, "Scope")
	return errors.Join(errs...)
}

// Explain says all that is known of a URL, as a person types it: without a
// scheme it is https. What is no URL has an Explanation too; an error is one of
// Sources.
func Explain(ctx context.Context, s Sources, raw string) (*Explanation, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	e := &Explanation{Raw: redact(raw)}
	steps, url, err := s.Canon.ExplainSeed(raw)
	e.Steps = redactSteps(steps)
	if err != nil {
		e.Verdict = noURL(err)
		return e, nil
	}
	e.Canonical, e.Host = url.String(), s.Canon.HostKey(url)
	print := s.Fingerprint(e.Canonical)
	e.HostFailure = s.HostFailure
	e.Fingerprint = hex.EncodeToString(print[:])
	q := query{src: &s, out: e, url: url}
	for _, ask := range []func(context.Context) error{q.askStore, q.askRecords, q.askRules, q.askClass, q.askRobots, q.askAddress} {
		if err := ask(ctx); err != nil {
			return nil, fmt.Errorf("explain %q: %w", e.Canonical, err)
		}
	}
	e.Verdict = q.verdict()
	return e, nil
}

// query is an explanation under way.
type query struct {
	src    *Sources
	out    *Explanation
	url    canon.URL
	status frontier.Status // as the store says it
}

// askStore asks where the URL is and what the filter says.
func (q *query) askStore(ctx context.Context) (err error) {
	if q.status, err = q.src.Inspector.Lookup(ctx, q.out.Host, q.out.Canonical); err != nil {
		return err
	}
	stats, err := q.src.Inspector.Stats(ctx)
	if err != nil {
		return err
	}
	q.out.Filter = &Filter{Known: q.status.InFilter, FPR: stats.Filter.FPR}
	if q.src.Layers != nil {
		if q.out.Filter.Layers, err = q.src.Layers(ctx, q.out.Canonical); err != nil {
			return err
		}
	}
	st := q.status
	q.out.Store = &Store{
		State: st.State, Outcome: st.Outcome, Status: st.Status, Round: st.Round, HostDueIn: st.HostDueIn,
	}
	if q.waits() || st.State == frontier.Failed {
		q.out.Store.Item = describe(&st.Item)
	}
	if q.src.Queue != nil && (st.State == frontier.Queued || st.State == frontier.Unknown) {
		queue, err := q.src.Queue(ctx, q.out.Host, q.out.Canonical)
		if err != nil {
			return err
		}
		q.out.Store.Queue = &queue
	}
	return nil
}

// waits reports whether the URL has been added and has no outcome yet.
func (q *query) waits() bool {
	return q.status.State == frontier.Queued || q.status.State == frontier.Leased
}

func describe(item *frontier.Item) *Item {
	d := &Item{
		Depth: int(item.Depth), Hops: int(item.Hops), Priority: "asset",
		Attempts: int(item.Attempts), Deliveries: int(item.Deliveries),
	}
	switch item.Priority {
	case frontier.PrioritySeed:
		d.Priority = "seed"
	case frontier.PriorityPage:
		d.Priority = "page"
	}
	if item.Referrer != (frontier.Referrer{}) {
		d.Referrer = hex.EncodeToString(item.Referrer[:])
	}
	return d
}

// askRecords looks for the URL's last record, and for who named it.
func (q *query) askRecords(context.Context) error {
	if q.src.Trail == nil || q.status.State == frontier.Unknown {
		return nil
	}
	var trail []record.Record
	if !q.waits() || q.status.Round > 0 { // else it has none yet
		own, err := q.src.Trail(q.out.Fingerprint[:16])
		if err != nil {
			return err
		}
		if len(own) > 0 {
			q.out.Record, trail = &own[0], own[1:]
			q.out.MoreBehind = own[len(own)-1].ReferrerID != ""
		}
	}
	if item := q.out.Store.Item; q.out.Record == nil && item != nil && item.Referrer != "" {
		named, err := q.src.Trail(item.Referrer)
		if err != nil {
			return err
		}
		trail = named
		q.out.MoreBehind = len(named) == 0 || named[len(named)-1].ReferrerID != ""
	}
	for _, r := range trail {
		q.out.Referrers = append(q.out.Referrers, r.URL)
	}
	return nil
}
