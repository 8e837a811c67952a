package extract

import (
	"strings"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// finish writes the results of the collector to page. The argument url is the
// URL of the page. query encodes the queries of references; nil means UTF-8.
func (c *collector) finish(page *Page, url canon.URL, query *queryEncoder) {
	page.Title, page.Nofollow, page.TooMany, page.Base = c.title, c.nofollow, c.tooMany, url
	if page.textCut {
		page.TooMany++
	}
	page.Refresh, page.Metas = c.refresh, c.metas
	if !page.textCut {
		page.TextDigest = c.shown.digest()
	}
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
	p := &linkPieces{page: page, opt: &c.opt, memory: &c.memory}
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
		var text LinkText
		if c.opt.LinkTexts {
			text = c.texts[n]
		}
		if !p.add(Link{URL: target, Kind: r.kind, Nofollow: r.nofollow}, text, len(c.references)-n) {
			break
		}
	}
	used := int64(0)
	for _, r := range c.references {
		used += referenceBytes + int64(len(r.text))
	}
	c.references, c.index = nil, nil
	c.memory.free(used)
}

// linkPieces collects links for Page.Links, and passes them on in pieces.
type linkPieces struct {
	page     *Page
	opt      *Options
	memory   *meter
	index    map[canon.URL]int32 // in Page.Links
	bytes    int64               // of memory that the links take
	reserved int64               // the part of it that is reserved
}

// add adds a link, or merges it with an earlier one that has the same URL. At most the argument
// left more links follow. It returns false if OnPiece did.
func (p *linkPieces) add(link Link, text LinkText, left int) bool {
	page := p.page
	if i, known := p.index[link.URL]; known {
		l := &page.Links[i]
		l.Kind, l.Nofollow = min(l.Kind, link.Kind), l.Nofollow && link.Nofollow
		if p.opt.LinkTexts {
			page.LinkTexts[i].add(text)
		}
		return true
	}
	bytes := linkBytes + int64(len(link.URL.String()))
	if !p.reserve(bytes) {
		if p.opt.OnPiece == nil {
			page.TooMany++
			return true
		}
		if p.bytes > 0 && !p.pass() {
			return false
		}
		p.reserve(bytes)
	}
	if p.index == nil {
		most := min(left, PieceBytes/linkBytes)
		p.index = make(map[canon.URL]int32, most)
		page.Links = make([]Link, 0, most)
	}
	p.bytes += bytes
	p.index[link.URL] = int32(len(page.Links))
	page.Links = append(page.Links, link)
	if p.opt.LinkTexts {
		page.LinkTexts = append(page.LinkTexts, text)
	}
	return true
}

// reserve reserves the memory of one more link. It returns false if the present piece must be
// passed on first. A small piece needs no memory that is reserved, so that a page whose
// references take all its memory still makes progress.
func (p *linkPieces) reserve(bytes int64) bool {
	if p.opt.OnPiece == nil {
		return p.memory.use(bytes)
	}
	if p.bytes+bytes > PieceBytes {
		return false
	}
	if p.memory.use(bytes) {
		p.reserved += bytes
		return true
	}
	return p.bytes+bytes <= leastHeld
}

// pass passes the present piece on.
func (p *linkPieces) pass() bool {
	if !p.opt.OnPiece(p.page) {
		return false
	}
	clear(p.page.Links)
	clear(p.page.LinkTexts)
	p.page.Links, p.page.LinkTexts = p.page.Links[:0], p.page.LinkTexts[:0]
	clear(p.index)
	p.memory.free(p.reserved)
	p.bytes, p.reserved = 0, 0
	return true
}
