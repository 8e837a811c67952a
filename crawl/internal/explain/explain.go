// Package explain explains why a URL was, or was not, crawled.
//
// It makes the same checks as a crawl, in the same order: the canonical form, the
// rules for links, the filter and the queue, robots.txt, and the host's address. It also
// works for URLs that the crawl never saw. The package owns the order and the words.
// The answers come from the packages that the crawl itself uses:
//
//	state of the URL        Sources.Locate, one question to the store
//	the rules for links     follow.Rules.Trace, which applies the rules of workers
//	robots.txt, address     robots.State, get.Client
//
// It changes nothing in the crawl. It does no I/O except through Sources, reads no
// clock, and makes no request: if a robots.txt is not known, it stays unknown.
package explain

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// Sources are the inputs of an explanation. Canon, Fingerprint, Locate and Now are
// required. Scope is required unless the rules use canon.ScopeAny. If another field is
// nil, the explanation lacks the part that needs this field.
type Sources struct {
	Canon       *canon.Canonicalizer
	Rules       follow.Rules
	Scope       frontier.Scope
	Quota       frontier.Quota                          // required if Rules.MaxHosts is set
	Fingerprint func(url string) bloomstore.Fingerprint // with the crawl's secret key
	Locate      func(ctx context.Context, url canon.URL, host string) (*Located, error)
	Now         time.Time

	// Exact says which URLs are exact.
	Exact *exact.Rules
	// IgnoreRobots reports whether robots.txt is ignored for a host key.
	IgnoreRobots func(host string) bool
	// Since returns the version of the policy that gave a setting its present value, in words, or "" if the
	// setting was never changed. by is the element of a list that decided; empty means the whole list.
	Since func(setting, by string) string
	// CheckHost returns a *get.AddressError for a host that must not be dialled, and
	// another error for a host that cannot be looked up.
	CheckHost func(ctx context.Context, host string) error
	// CheckPort returns a *get.PortError for a port that is not requested.
	CheckPort func(port string) error
}

// Located is the state of one URL in the store of a crawl, at one moment. If a field is
// nil, the explanation lacks the part that needs this field.
type Located struct {
	frontier.Status
	FPR    float64 // current false-positive rate of the filter
	Layers []Layer // the answer of each layer of the filter
	// Given is the number of URLs that were put into the filter without being added
	// (--known).
	Given uint64
	// Forgets reports that bulk URLs have a window.
	Forgets bool
	Row     *bool   // whether a row proves that the URL was added; otherwise only the filter may claim it
	Queue   *Queue  // the position of the URL among the URLs of its host
	More    []Check // checks of the store, which come after Sources.Rules
	// Robots returns the state of the robots.txt of the URL's origin, or nil if it is
	// not known.
	Robots func() (*robots.State, error)
	// HostFailure is why the URL's host does not answer. It is empty if the host
	// answers, or if no failure of the host is known.
	HostFailure string
	// Trap is why the URL ends without a request, if its series is a trap.
	Trap string
	// Trail returns the record with this id and the records of its referrers, as
	// record.Reader.Trail does.
	Trail func(id string) ([]record.Record, error)
}

// Explain explains a URL that a person has typed. If the URL has no scheme, https is assumed.
// For a text that is not a URL, Explain returns an Explanation too, and no error. Errors are
// those of Sources.
func Explain(ctx context.Context, s Sources, raw string) (*Explanation, error) {
	e := &Explanation{Raw: redact(raw)}
	steps, url, err := s.Canon.ExplainSeed(raw)
	e.Steps = redactSteps(steps)
	if err != nil {
		e.Verdict = noURL(err)
		return e, nil
	}
	e.Canonical, e.Host = url.String(), s.Canon.HostKey(url)
	print := s.Fingerprint(e.Canonical)
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

// query builds one Explanation.
type query struct {
	src *Sources
	out *Explanation
	url canon.URL
	at  *Located

	falseClaim bool // the filter claims to know the URL, but it was never added
}

// askStore asks for the state of the URL and the answer of the filter.
func (q *query) askStore(ctx context.Context) (err error) {
	if q.at, err = q.src.Locate(ctx, q.url, q.out.Host); err != nil {
		return err
	}
	at := q.at
	q.out.HostFailure, q.out.Trap = at.HostFailure, at.Trap
	q.out.Filter = &Filter{Known: at.InFilter, FPR: at.FPR, Layers: at.Layers}
	q.out.Store = &Store{
		State: at.State, Outcome: at.Outcome, Status: at.Status.Status, Round: at.Round, HostDueIn: human.Seconds(at.HostDueIn),
	}
	if q.waits() || at.State == frontier.Failed {
		q.out.Store.Item = describe(&at.Item)
	}
	if at.State == frontier.Queued || at.State == frontier.Unknown {
		q.out.Store.Queue = at.Queue
	}
	return nil
}

// waits reports whether the URL has been added and has no outcome yet.
func (q *query) waits() bool {
	return q.at.State == frontier.Queued || q.at.State == frontier.Leased
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

// adoptOutcome takes the outcome from the record if the store does not have it: in Redis, only the
// filter has a finished URL.
func (q *query) adoptOutcome() {
	s, r := q.out.Store, q.out.Record
	if q.at.State == frontier.Done && s.Outcome == "" {
		s.Outcome, s.Status, s.Round = frontier.Outcome(r.Outcome), r.Status, uint32(r.Round)
	}
}

// askRecords finds the URL's last record, and its referrers.
func (q *query) askRecords(context.Context) error {
	if q.at.Trail == nil || q.at.State == frontier.Unknown {
		return nil
	}
	var trail []record.Record
	if !q.waits() || q.at.Round > 0 { // otherwise it has no record yet
		own, err := q.at.Trail(q.out.Fingerprint[:16])
		if err != nil {
			return err
		}
		if len(own) > 0 {
			q.out.Record, trail = &own[0], own[1:]
			q.out.MoreBehind = own[len(own)-1].ReferrerID != ""
			q.adoptOutcome()
		}
	}
	if item := q.out.Store.Item; q.out.Record == nil && item != nil && item.Referrer != "" {
		named, err := q.at.Trail(item.Referrer)
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
