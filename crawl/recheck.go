package crawl

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Rechecked counts the URLs that Recheck was given.
type Rechecked struct {
	Queued  int `json:"queued"`  // queued for their next round
	Waiting int `json:"waiting"` // not queued: they wait already, or were fetched again meanwhile
}

// ErrNoRecheck reports a crawl in Redis. Its queue keeps nothing of a finished URL except its bits in
// the filter.
var ErrNoRecheck = control.ErrNoRecheck

// recheckStep bounds the URLs that are queued in one step.
const recheckStep = 1000

// Recheck queues the URLs of finished records for their next round, in steps of 1000 URLs. Each record
// must be the latest one of its URL: see Snapshot. A URL whose last round is not that of the record is not
// queued. So a call can be repeated, also after a call that was killed half-way. Recheck returns
// ErrNoRecheck for a crawl in Redis. With an error, it also returns the counts until then.
func (h *Handle) Recheck(ctx context.Context, records iter.Seq2[record.Record, error]) (sum Rechecked, err error) {
	if h.location.Redis != nil {
		return sum, ErrNoRecheck
	}
	release, err := h.Keep(ctx)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, release()) }()
	var step []frontier.Finished
	queue := func() error {
		n, err := ask(ctx, h, verbRecheck, step)
		if err == nil {
			sum.Queued += n
			sum.Waiting += len(step) - n
			step = step[:0]
		}
		return err
	}
	for r, err := range records {
		if err != nil {
			return sum, err
		}
		item, err := finishedItem(&r)
		if err != nil {
			return sum, err
		}
		if step = append(step, item); len(step) == recheckStep {
			if err := queue(); err != nil {
				return sum, err
			}
		}
	}
	if len(step) == 0 {
		return sum, nil
	}
	return sum, queue()
}

// classes are the classes of items, by the names that records have.
var classes = []frontier.Class{frontier.Bulk, frontier.Exact, frontier.Sitemap, frontier.Listed}

// finishedItem returns the item of a record.
func finishedItem(r *record.Record) (item frontier.Finished, err error) {
	item.URL, item.Host, item.Depth, item.Round = r.URL, r.Host, uint16(r.Depth), uint32(r.Round)
	item.Submission = r.Submission
	if r.Check != "" {
		form, _ := canon.New(canon.Options{}) // the host does not depend on the options
		url, err := form.Parse(r.URL)
		if err != nil {
			return item, fmt.Errorf("the record of %s: %w", r.URL, err)
		}
		item.URL, item.Host = frontier.CheckURL(r.URL), frontier.CheckHost(canon.Domain(url.Host()))
	}
	if r.Class != "" {
		i := slices.IndexFunc(classes, func(c frontier.Class) bool { return c.String() == r.Class })
		if i < 0 {
			return item, fmt.Errorf("the record of %s has the class %q, which this version does not know", r.URL, r.Class)
		}
		item.Class = classes[i]
	}
	if n, err := hex.Decode(item.Referrer[:], []byte(r.ReferrerID)); err != nil || n != 0 && n != len(item.Referrer) {
		return item, fmt.Errorf("the record of %s has the referrer_id %q, want 16 hex digits", r.URL, r.ReferrerID)
	}
	return item, nil
}

// recheck implements a step of Handle.Recheck.
func (ses *session) recheck(ctx context.Context, items []frontier.Finished) (int, error) {
	n, err := ses.engine.Recheck(ctx, items)
	ses.worker.Wake()
	return n, err
}
