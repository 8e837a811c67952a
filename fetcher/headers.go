package fetcher

import (
	"cmp"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// addHeaders adds what the headers of the answer say like elements of a page: links, the canonical
// URL and the language. What the document says itself wins. document is nil if the answer is not
// HTML. addHeaders returns what it read.
func (v *visited) addHeaders(links *linkSet, document *extract.Page, r *record.Record) *extract.Page {
	header := v.answer.Header
	named := extract.Headers(header, v.url, extract.Options{
		Canon: v.cfg.Canon, Assets: v.rules.policy.Assets, Feeds: v.rules.policy.Feeds, LinkTexts: v.cfg.Edges != nil, OnRefused: links.refuseReference,
	})
	named.Nofollow = document != nil && document.Nofollow
	r.Canonical = cmp.Or(r.Canonical, named.Canonical.String())
	if v.cfg.Text {
		r.Lang = cmp.Or(r.Lang, extract.HeaderLanguage(header))
	}
	links.refuse(frontier.ReasonTooMany, named.TooMany)
	nofollow := robots.HeaderNofollow(header.Values("X-Robots-Tag"), v.rules.token)
	v.addEdges(named, nofollow)
	links.addDocument(named, nofollow)
	return named
}

// refreshes reports whether the page refreshes to another spelling of its URL, which the visit
// must request now. The links of the page are then kept for the completion.
func (v *visited) refreshes(links *linkSet, pages ...*extract.Page) bool {
	for _, page := range pages {
		if page == nil || page.Refresh == "" {
			continue
		}
		target, err := v.cfg.Canon.Join(page.Base, page.Refresh)
		if err != nil || target != v.url {
			continue
		}
		base := v.spelling()
		if page.Base != v.url {
			base = page.Base.String()
		}
		if v.respell(base, page.Refresh) == nil {
			before := *links
			if v.before != nil {
				before.join(v.before)
			}
			v.before = &before
			return true
		}
	}
	return false
}
