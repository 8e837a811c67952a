package fetcher

import (
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/frontier"
)

// A page can link to a sitemap before another sitemap or robots.txt names it, and a URL that was
// named as a sitemap can be a page. The store queues a URL once, so what arrives decides its role,
// not who named it first. A list of URLs as text is a sitemap only if it was named as one. A feed that
// was named as a sitemap stays one.

// peek returns the limit of a body that begins with the given bytes if it is a sitemap or a feed
// that the crawl reads. It returns 0 if it is not. See get.Request.Peek.
func (h *holding) peek(begin []byte) (maxBody int64) {
	switch form := sitemap.FormOf(begin); {
	case form == sitemap.Feed && h.cfg.Policy().Feeds:
		return 1 // which means the limit of a page
	case form != sitemap.None && h.cfg.Policy().Sitemaps:
		return h.largestSitemap()
	}
	return 0
}

// largestSitemap returns how much of a sitemap fits into the memory.
func (h *holding) largestSitemap() int64 {
	most := int64(sitemap.MaxBytes)
	for h.cfg.sitemapMemory(most) > h.memory.Largest() {
		most /= 2
	}
	return most
}

// form returns the form of the answer: a sitemap, a feed or neither.
func (v *visited) form() sitemap.Form {
	body := v.answer.Body
	return sitemap.FormOf(body[:min(len(body), sitemap.LookBytes)])
}

// isFeed reports whether the answer is read as a feed.
func (v *visited) isFeed() bool {
	return v.rules.policy.Feeds && v.item.Class != frontier.Sitemap && v.form() == sitemap.Feed
}

// isSitemap reports whether the answer is read as a sitemap.
func (v *visited) isSitemap() bool {
	looks := v.rules.policy.Sitemaps && v.form() != sitemap.None
	if v.item.Class != frontier.Sitemap {
		return looks
	}
	return looks || !v.answer.IsHTML()
}
