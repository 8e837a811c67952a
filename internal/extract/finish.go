package extract

import (
	"strings"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// finish writes the results of the collector to page. The argument url is the
// URL of the page. query encodes the queries of references; nil means UTF-8.
func (c *collector) finish(page *Page, url canon.URL, query *queryEncoder) {
	page.Title, page.Nofollow, page.TooMany, page.Base = c.title, c.nofollow, c.tooMany, url
	if c.hasBase {
		// A base that is not an http URL is ignored, as browsers ignore a data: URL.
		// References relative to it could not be fetched.
		if base, err := c.opt.Canon.Join(url, c.base); err == nil {
			page.Base = base
		}
	}
	join := func(text string) (canon.URL, error) {
		return c.opt.Canon.Join(page.Base, query.encode(text))
	}
	if c.canonical != "" {
		page.Canonical, _ = join(c.canonical)
	}
	page.Links = make([]Link, 0, len(c.references))
	index := make(map[canon.URL]int32, len(c.references))
	size := 0
	for n, r := range c.references {
		if size > MaxLinkBytes {
			page.TooMany++
			continue
		}
		if !c.hasBase && strings.TrimSpace(r.text) == "" {
			continue // a place in the page itself
		}
		size += len(page.Base.String()) + len(r.text)
		target, err := join(r.text)
		if err != nil {
			if c.opt.OnRefused != nil {
				c.opt.OnRefused(r.text, err)
			}
			continue
		}
		if i, known := index[target]; known {
			l := &page.Links[i]
			l.Kind, l.Nofollow = min(l.Kind, r.kind), l.Nofollow && r.nofollow
			if c.opt.LinkTexts {
				page.LinkTexts[i].add(c.texts[n])
			}
			continue
		}
		index[target] = int32(len(page.Links))
		page.Links = append(page.Links, Link{URL: target, Kind: r.kind, Nofollow: r.nofollow})
		if c.opt.LinkTexts {
			page.LinkTexts = append(page.LinkTexts, c.texts[n])
		}
	}
}
