package testweb

import "math"

// Link is a link of a page.
type Link struct {
	Raw       string `json:"raw"`       // the attribute's value, character references resolved
	Canonical string `json:"canonical"` // what it comes to
}

// LinksOf returns the links of the page at a canonical URL in the order of the
// page, the repeated ones too; none when a correct crawl does not read it.
func (w *Web) LinksOf(url string) []Link {
	t := w.targetOf(url)
	if t.kind != aPage || !w.fateOf(t.page).hasLinks() {
		return nil
	}
	var links []Link
	base := w.baseOf(t.page)
	dice := w.roll(forSpelling, t.page)
	for _, to := range w.links(nil, t.page) {
		link := Link{Canonical: w.url(to)}
		if link.Raw = link.Canonical; w.spelled(&dice) {
			link.Raw = string(w.spell(&dice, base, to).value)
		}
		links = append(links, link)
	}
	return links
}

// links appends what p links to: first what hangs from it, through which alone
// some URLs are surely found, then any pages of its own and other hosts.
func (w *Web) links(dst []target, p page) []target {
	w.shape.children(p, func(child page) { dst = append(dst, target{kind: aPage, page: child}) })
	if w.ownsChain(p) {
		dst = append(dst, target{kind: aHop, page: p})
	}
	if p.index == 0 {
		w.deadFrom(p.host, func(d int) {
			for part := range deadPages {
				dst = append(dst, target{kind: aDeadPage, page: page{host: d}, part: part})
			}
		})
	}
	d := w.roll(forLinks, p)
	many := -math.Log(1-d.unit()) * float64(w.cfg.MeanLinks) // exponential: many pages with few links, few with many
	for range int(min(many, 8*float64(w.cfg.MeanLinks))) {
		dst = append(dst, target{kind: aPage, page: w.popular(&d, p)})
	}
	if w.has(Spellings) { // repeat some, to be spelled in another way
		for i, n := 0, len(dst); i < n; i += 4 {
			dst = append(dst, dst[i])
		}
	}
	return dst
}

// popular draws where a link of p leads: in two of three cases to its own host.
// The number of links that a host or page gets falls off as a power of its
// rank, as on the web (Broder and others, WWW 2000).
func (w *Web) popular(d *dice, p page) page {
	to := p
	if d.below(3) == 0 {
		u := d.unit()
		to.host = int(u * u * math.Sqrt(u) * float64(w.shape.hosts()))
	}
	u := d.unit()
	to.index = int(u * u * u * float64(w.shape.size(to.host)))
	return to
}
