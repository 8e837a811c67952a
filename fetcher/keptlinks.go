package fetcher

import (
	"context"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// OfferKept offers links of a page again that were kept when it was fetched, under the present policy: those that were
// refused then may pass now, and the others are seen. The argument page has the URL, the fingerprint and the depth
// of the page. Links that the rules refuse are not offered, and count only in the result.
// OfferKept may be called while Run runs. After an error, some of the links might have been added, and the call can
// be repeated.
func (c *Crawl) OfferKept(ctx context.Context, page *frontier.Item, kept []record.Edge) (n frontier.LinkCounts, err error) {
	links := linkSet{holding: &holding{Crawl: c}, policy: c.cfg.Policy(), from: page, depth: int(page.Depth) + 1}
	listed := links
	listed.found, listed.listing = exact.BySitemap, true
	for i := range kept {
		url, err := c.cfg.Canon.Parse(kept[i].Target)
		set, priority := &links, frontier.PriorityPage
		switch kind := kept[i].Kind; {
		case kind == record.KindSitemap:
			set = &listed
		case extract.IsAsset(kind):
			priority = frontier.PriorityAsset
		}
		switch {
		case err != nil:
			set.refuse(reasonOf(err), 1)
		case kept[i].Nofollow:
			set.refuse(frontier.ReasonNofollow, 1)
		case priority == frontier.PriorityAsset && !links.policy.Assets, set == &listed && !links.policy.Sitemaps:
			set.refuse(frontier.ReasonExcluded, 1)
		default:
			set.add(url, priority, set.judge(url))
		}
	}
	links.addChecks()
	for _, set := range []*linkSet{&links, &listed} {
		if set.err != nil {
			return n, set.err
		}
		for _, r := range set.refusals() {
			n.Count(frontier.Refused, r.Count)
		}
	}
	offers := append(links.offers, listed.offers...)
	if len(offers) == 0 {
		return n, nil
	}
	verdicts, err := c.cfg.Store.Add(ctx, offers)
	if err != nil {
		return n, err
	}
	for _, v := range verdicts {
		n.Count(v.Answer, 1)
	}
	c.Wake()
	return n, nil
}
