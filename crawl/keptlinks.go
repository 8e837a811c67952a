package crawl

import (
	"context"
	"regexp"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// offerQuestion has kept links of a page, which was depth links away from a seed.
type offerQuestion struct {
	Source string        `json:"source"` // URL of the page
	Depth  int           `json:"depth"`
	Links  []record.Edge `json:"links"`
}

// OfferKept offers again the links that the crawl kept and whose URLs match, all if match is nil: after a change that made
// a rule looser, those that were refused before can be crawled. The present rules of the crawl hold, as for links of a page
// that is fetched now. Refused counts links that they refuse, which the books do not count again.
//
// OfferKept reads the records once and the links twice, and keeps about 60 bytes of memory for each page that has such a
// link. After an error, some links might have been offered, and repeating the call is safe. The error is
// ErrNoLinks if the crawl kept no links.
func (h *Handle) OfferKept(ctx context.Context, match *regexp.Regexp) (n frontier.LinkCounts, err error) {
	depths := make(map[string]int) // by id of the page
	matching := func(links []record.Edge) (found []record.Edge) {
		for _, l := range links {
			if match == nil || match.MatchString(l.Target) {
				found = append(found, l)
			}
		}
		return found
	}
	for line, err := range h.keptLines(ctx) {
		if err != nil {
			return n, err
		}
		if len(matching(line.Links)) > 0 {
			depths[line.ID] = 0
		}
	}
	for r, err := range parsed[record.Record](h.Records(ctx)) {
		if err != nil {
			return n, err
		}
		if _, asked := depths[r.ID]; asked {
			depths[r.ID] = r.Depth
		}
	}
	for line, err := range h.keptLines(ctx) {
		if err != nil {
			return n, err
		}
		links := matching(line.Links)
		depth, known := depths[line.ID]
		if len(links) == 0 || !known {
			continue // or the page was fetched since the first iteration
		}
		more, err := ask(ctx, h, verbOffer, offerQuestion{line.Source, depth, links})
		if err != nil {
			return n, err
		}
		n.Found, n.Added, n.Seen, n.Refused = n.Found+more.Found, n.Added+more.Added, n.Seen+more.Seen, n.Refused+more.Refused
	}
	return n, nil
}

// offer implements a step of Handle.OfferKept.
func (ses *session) offer(ctx context.Context, q offerQuestion) (frontier.LinkCounts, error) {
	page := frontier.Item{URL: q.Source, Fingerprint: ses.engine.Hasher().Fingerprint(q.Source), Depth: uint16(q.Depth)}
	return ses.worker.OfferKept(ctx, &page, q.Links)
}
