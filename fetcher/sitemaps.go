package fetcher

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/fetcher/sitemap"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
)

const (
	// maxSitemaps bounds those that one robots.txt names.
	maxSitemaps = 100
	// wellKnown is how many places are tried where nobody names a sitemap: the
	// rest are so rare that asking every host for them is not polite.
	wellKnown = 2
)

// offerSitemaps queues the sitemaps of an origin whose robots.txt has come. One
// that it names may be on another host: it is queued there, in scope or not,
// for the file has been named by who may speak for the URLs in it.
func (h *holding) offerSitemaps(origin string) error {
	h.mu.Lock()
	rules := h.origin(origin).Rules()
	h.mu.Unlock()
	if !h.cfg.Sitemaps || rules == nil {
		return nil
	}
	items := h.sitemapsOf(origin, rules)
	err := h.whileUnavailable(func() error {
		_, err := h.cfg.Store.Add(h.hard, items)
		return err
	})
	switch {
	case err == nil:
		if lasted, was := h.storeFull.end(time.Now()); was {
			h.cfg.Logger.Info("store takes sitemaps again", slog.Duration("after", lasted))
		}
		h.Wake()
		return nil
	case errors.Is(err, frontier.ErrFull): // it is with them as with links then: they are refused
		if h.storeFull.begin(time.Now()) {
			h.cfg.Logger.Warn("store full, sitemaps refused", slog.String("origin", origin))
		}
		return nil
	}
	if h.hard.Err() == nil {
		h.note(err)
	}
	h.mu.Lock()
	delete(h.origins, origin) // whoever has the host next asks again, and offers again
	h.mu.Unlock()
	return errStop
}

// sitemapsOf returns the sitemaps that speak for an origin.
func (h *holding) sitemapsOf(origin string, rules *robots.Rules) (items []frontier.Item) {
	file, err := h.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return nil
	}
	named := rules.Sitemaps()
	if len(named) == 0 {
		named = sitemap.WellKnown()[:wellKnown]
	}
	for _, ref := range named[:min(len(named), maxSitemaps)] {
		if url, err := h.cfg.Canon.Join(file, ref); err == nil {
			items = append(items, frontier.Item{
				URL: url.String(), Host: h.cfg.Canon.HostKey(url),
				Priority: frontier.PriorityPage, Class: frontier.Sitemap,
			})
		}
	}
	return items
}

// request completes a request for an item: a sitemap may be larger than a page,
// and of any type.
func (h *holding) request(item frontier.Item, request get.Request) get.Request {
	if item.Class != frontier.Sitemap {
		return request
	}
	request.AnyType, request.MaxBody = true, sitemap.MaxBytes
	if h.cfg.Memory != nil {
		for h.cfg.Client.MaxHeld(request) > h.cfg.Memory.Largest() {
			request.MaxBody /= 2
		}
	}
	return request
}

// sitemap offers what a sitemap lists. Its pages are one link away from it,
// however deep indexes nest: that counts as redirects do.
func (v *visited) sitemap(r *record.Record) frontier.Completion {
	v.describe(r)
	pages := linkSet{holding: v.holding, from: &v.item, depth: int(v.item.Depth) + 1, found: exact.BySitemap}
	files := linkSet{holding: v.holding, from: &v.item, depth: int(v.item.Depth), hops: int(v.item.Hops) + 1, class: frontier.Sitemap}
	if !v.takeReader() {
		return v.giveBack()
	}
	_, err := sitemap.Read(bytes.NewReader(v.answer.Body), func(entry sitemap.Entry) bool {
		links := &pages
		if entry.Kind == sitemap.Sitemap {
			links = &files
		}
		url, err := v.cfg.Canon.Join(v.url, entry.URL)
		if err != nil {
			links.refuseReference(entry.URL, err)
			return true
		}
		links.add(url, frontier.PriorityPage)
		return links.err == nil
	})
	<-v.readers
	if err != nil && r.Error == "" {
		r.Error = err.Error()
	}
	if err := errors.Join(pages.err, files.err); err != nil {
		return v.storeFailed(err)
	}
	pages.join(&files)
	return v.finishedWith(&pages, frontier.OK, r)
}

// join takes the links of other over.
func (l *linkSet) join(other *linkSet) {
	l.items = append(l.items, other.items...)
	l.details = append(l.details, other.details...)
	for reason, n := range other.refused {
		l.refuse(reason, int(n))
	}
}
