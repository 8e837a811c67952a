package fetcher

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// wellKnown are the paths that are tried if robots.txt names no sitemap. Sitemaps at other
// paths are too rare to request such paths from every host.
var wellKnown = []string{"/sitemap.xml", "/sitemap_index.xml"}

// offerSitemaps queues the sitemaps of an origin whose robots.txt was received. A named
// sitemap may be on another host. It is queued even if that host is not in scope, because
// the site has named it.
func (h *holding) offerSitemaps(origin string) error {
	h.mu.Lock()
	rules := h.origin(origin).Rules()
	h.mu.Unlock()
	if !h.cfg.Policy().Sitemaps || rules == nil {
		return nil
	}
	offers := h.sitemapsOf(origin, rules)
	err := h.whileUnavailable(h.hard, func() error {
		_, err := h.cfg.Store.Add(h.hard, offers)
		return err
	})
	switch {
	case err == nil:
		if lasted, was := h.storeFull.end(time.Now()); was {
			h.cfg.Logger.Info("store takes sitemaps again", slog.Duration("after", lasted))
		}
		h.Wake()
		return nil
	case errors.Is(err, frontier.ErrFull): // a full store refuses sitemaps as it refuses links
		if h.storeFull.begin(time.Now()) {
			h.cfg.Logger.Warn("store full, sitemaps refused", slog.String("origin", origin))
		}
		return nil
	}
	h.mu.Lock()
	delete(h.origins, origin) // the next lease requests robots.txt and offers the sitemaps again
	h.mu.Unlock()
	return h.storeFailed(err)
}

// sitemapsOf returns offers of the sitemaps that an origin's robots.txt names, or of those
// at well-known paths.
func (h *holding) sitemapsOf(origin string, rules *robots.Rules) (offers []frontier.Offer) {
	file, err := h.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return nil
	}
	named := rules.Sitemaps()
	if len(named) == 0 {
		named = wellKnown
	}
	for _, ref := range named {
		url, err := h.cfg.Canon.Join(file, ref)
		if err != nil {
			continue
		}
		offer := frontier.Offer{URL: url.String(), Host: h.cfg.Canon.HostKey(url), Priority: frontier.PriorityPage, Class: frontier.Sitemap}
		if rule, _ := h.cfg.Policy().Refusal(&offer, bloomstore.Fingerprint{}, h.cfg.Exact.Name); rule == "" {
			offers = append(offers, offer)
		}
	}
	return offers
}

// request adapts a request to its item. A sitemap may be larger than a page, and of any
// content type.
func (h *holding) request(item frontier.Item, request get.Request) get.Request {
	p := h.cfg.Policy()
	request.AnyType = p.AnyType
	switch {
	case item.Class == frontier.Sitemap:
		request.AnyType, request.MaxBody = true, h.largestSitemap()
	case p.Sitemaps || p.Feeds:
		request.Peek = h.peek
	}
	return request
}

// These limits bound the URLs of a sitemap that are in memory at once. All 50,000 URLs that
// a sitemap may list take 12 MB here and as much in the store. They take more if they are
// relative, because the URL of the sitemap is added to each.
const (
	chunkURLs  = 4096
	chunkBytes = 1 << 20
	// sitemapChunks is the memory of a chunk of pages and a chunk of sitemaps, with all that is
	// made of them.
	sitemapChunks = 2 * (chunkBytes + chunkURLs*400)
	// mostLate bounds the URLs that wait for the completion of the sitemap after a call of
	// offer has failed.
	mostLate = 4 * chunkBytes
)

// takeListing waits until no other sitemap of the host is being visited, because a site
// may have hundreds, of 50 MB each. If class is not frontier.Sitemap, it does not wait.
func (h *holding) takeListing(stop context.Context, class frontier.Class) (done func(), err error) {
	if class != frontier.Sitemap {
		return func() {}, nil
	}
	select {
	case h.listed <- struct{}{}:
		return func() { <-h.listed }, nil
	case <-stop.Done():
		return nil, errStop
	}
}

// sitemap offers the URLs of a sitemap. The pages have the depth of the sitemap plus one.
// The sitemaps in an index have the depth of the index, and count as one more hop, like
// the target of a redirect.
func (v *visited) sitemap(r *record.Record) frontier.Completion {
	v.describe(r)
	pages := linkSet{holding: v.holding, policy: v.rules.policy, from: &v.item, depth: int(v.item.Depth) + 1, found: exact.BySitemap, listing: true}
	files := linkSet{holding: v.holding, policy: v.rules.policy, from: &v.item, depth: int(v.item.Depth), hops: int(v.item.Hops) + 1, class: frontier.Sitemap, listing: true}
	early := earlyLinks{visited: v}
	bases := xmlBases{canon: v.cfg.Canon, url: v.url}
	reading := v.growShare(sitemapChunks) && v.beginParsing()
	if !reading {
		return v.giveBack()
	}
	claims := v.claims(&bases)
	sum, err := sitemap.ReadModified(bytes.NewReader(v.answer.Body), v.answer.MIMEType(), func(entry sitemap.Entry) bool {
		links, judge := &pages, pages.judge
		if entry.Kind == sitemap.Sitemap {
			links, judge = &files, func(url canon.URL) follow.Finding { return files.judgeSitemap(v.url, url, true) }
		}
		url, err := v.cfg.Canon.Join(bases.of(entry.Bases), entry.URL)
		if err != nil {
			links.refuseReference(entry.URL, err)
		} else {
			links.add(url, frontier.PriorityPage, judge(url))
			v.addListed(url)
		}
		full := len(links.offers)+len(links.details) >= chunkURLs || links.bytes >= chunkBytes
		if full && links.err == nil && (!early.failed || links.bytes >= mostLate) {
			v.endParsing()
			early.offer(links)
			reading = v.beginParsing()
		}
		return reading && links.err == nil
	}, claims.add)
	claims.send()
	if !reading || v.edgesCut && v.hard.Err() != nil { // the abort may be the reason for what is missing
		return v.giveBack()
	}
	v.endParsing()
	v.sortEdges()
	if v.edgesCut {
		r.Cut = append(r.Cut, "links")
	}
	pages.refuse(frontier.ReasonTooMany, sum.TooMany)
	pages.refuse(frontier.ReasonTooLong, sum.TooLong)
	pages.refuse(frontier.ReasonMalformed, sum.Undecoded)
	if err != nil && r.Error == "" {
		r.Error = err.Error()
	}
	if err := errors.Join(pages.err, files.err); err != nil {
		return v.giveBackAfter(err)
	}
	pages.join(&files)
	return early.countIn(v.finishedWith(&pages, frontier.OK, r))
}

// claims collects what a sitemap says of pages, for Config.Visits.
type claims struct {
	visits Visits // nil means that nothing is collected
	of     func(m *sitemap.Modified) (c Claim, is bool)
	all    []Claim
}

// claims returns the claims of a sitemap. They are about pages of its own domain only.
func (v *visited) claims(bases *xmlBases) *claims {
	if v.cfg.Visits == nil || !v.cfg.Visits.Active() {
		return &claims{}
	}
	domain := canon.Domain(v.url.Host())
	return &claims{visits: v.cfg.Visits, of: func(m *sitemap.Modified) (Claim, bool) {
		url, err := v.cfg.Canon.Join(bases.of(m.Bases), m.URL)
		if err != nil || canon.Domain(url.Host()) != domain {
			return Claim{}, false
		}
		return Claim{url.String(), m.First, m.Until}, true
	}}
}

func (c *claims) add(m sitemap.Modified) {
	if c.visits == nil {
		return
	}
	if claim, is := c.of(&m); is {
		c.all = append(c.all, claim)
	}
	if len(c.all) == chunkURLs {
		c.send()
	}
}

func (c *claims) send() {
	if len(c.all) > 0 {
		_ = c.visits.Claim(c.all) // see Visits.Claim
		c.all = c.all[:0]
	}
}

// earlyLinks are the links of a sitemap, or of a page with very many links, that are offered
// before the sitemap or page is completed. If it is not completed, these links are "seen" when it
// is read again.
type earlyLinks struct {
	*visited
	waits  bool // offer always waits for the store
	counts frontier.LinkCounts
	failed bool // a call of offer failed; the completion offers the links of that call and all later links
}

// offer offers the links of l, removes them from l, and reports the refused ones. While the
// store is unavailable, offer waits. But if some of the links are exact (not frontier.Bulk),
// offer sets failed instead of waiting, and the completion of the sitemap offers the links:
// while Postgres is unreachable, the store accepts exact links only in a completion.
//
// The body stays in memory during the call, so it counts towards the backlog.
func (e *earlyLinks) offer(l *linkSet) {
	l.addChecks()
	if l.err != nil {
		e.failed = true
		return
	}
	body := min(int64(cap(e.answer.Body)), e.backlog.most/2) // one large body must not stop all requests
	e.backlog.add(body)
	defer e.backlog.add(-body)
	e.tally.storing.Add(1)
	defer e.tally.storing.Add(-1)
	hasExact := slices.ContainsFunc(l.offers, func(link frontier.Offer) bool { return link.Class != frontier.Bulk })
	var verdicts []frontier.Verdict
	var err error
	add := func() error {
		if e.isOver() {
			return frontier.ErrLeaseLost
		}
		verdicts, err = e.cfg.Store.Add(e.hard, l.offers)
		return err
	}
	if len(l.offers) > 0 && hasExact && !e.waits && l.bytes < mostLate {
		err = add()
	} else if len(l.offers) > 0 {
		err = e.whileUnavailable(e.hard, add)
	}
	if err != nil {
		e.failed = true
		return
	}
	e.addedEarly = true
	tell := e.answeredByStore(l.offers)
	for i, verdict := range verdicts {
		e.counts.Count(verdict.Answer, 1)
		if verdict.Answer != frontier.Seen && tell != nil {
			tell(i, verdict)
		}
	}
	e.refused = append(e.refused, l.details...)
	e.reportRefused()
	e.refused = nil
	clear(l.offers)
	l.offers, l.details, l.bytes = l.offers[:0], nil, 0
	e.Wake()
}

// addPiece offers a piece of the links of a page. It returns false if the page cannot be read
// further. A page never goes on after a failed offer: it is given back, and fetched again.
func (e *earlyLinks) addPiece(l *linkSet, page *extract.Page, nofollow bool) bool {
	e.addEdges(page, nofollow)
	l.addDocument(page, nofollow)
	if l.err != nil {
		e.failed = true
		return false
	}
	e.endParsing()
	e.offer(l)
	return !e.failed && e.beginParsing()
}

// countIn adds the links that were offered early to the counts of a completion's record, and
// returns the completion.
func (e *earlyLinks) countIn(done frontier.Completion) frontier.Completion {
	write := done.Record
	if write == nil || e.counts == (frontier.LinkCounts{}) {
		return done
	}
	done.Record = func(links frontier.LinkCounts) error {
		links.Count(frontier.Added, e.counts.Added)
		links.Count(frontier.Seen, e.counts.Seen)
		links.Count(frontier.Refused, e.counts.Refused)
		return write(links)
	}
	return done
}

// join moves the links of other to l.
func (l *linkSet) join(other *linkSet) {
	l.offers = append(l.offers, other.offers...)
	l.details = append(l.details, other.details...)
	for reason, n := range other.refused {
		l.refuse(reason, int(n))
	}
}
