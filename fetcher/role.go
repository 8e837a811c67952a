package fetcher

import (
	"slices"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/frontier"
)

// A page can link to a sitemap before another sitemap or robots.txt names it, and a URL that was
// named as a sitemap can be a page. The store queues a URL once, so what arrives decides its role,
// not who named it first. A list of URLs as text is a sitemap only if it was named as one.

// listing returns the limit of a body that begins with the given bytes if it is a sitemap. It
// returns 0 if it is not. See get.Request.Peek.
func (h *holding) listing(begin []byte) (maxBody int64) {
	if !sitemap.Looks(begin) {
		return 0
	}
	return h.largestSitemap()
}

// largestSitemap returns how much of a sitemap fits into the memory.
func (h *holding) largestSitemap() int64 {
	most := int64(sitemap.MaxBytes)
	for h.cfg.sitemapMemory(most) > h.memory.Largest() {
		most /= 2
	}
	return most
}

// isSitemap reports whether the answer is read as a sitemap.
func (v *visited) isSitemap() bool {
	body := v.answer.Body
	looks := v.cfg.Sitemaps && sitemap.Looks(body[:min(len(body), sitemap.LookBytes)])
	if v.item.Class != frontier.Sitemap {
		return looks
	}
	return looks || !slices.Contains(get.HTMLTypes(), v.answer.ContentType)
}
