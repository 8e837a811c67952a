package testweb

import "math"

// Link is a link of a page.
type Link struct {
	Raw       string `json:"raw"`       // the attribute's value, with character references resolved
	Canonical string `json:"canonical"` // the canonical URL that it leads to
}

// LinksOf returns the links of the page at a canonical URL, in the order of the page
// and with repetitions. It returns none if a correct crawl does not read the page.
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

// links appends the targets of p's links. The first targets are the children of p, its
// chain of redirects, and pages of dead hosts. A crawl might find these targets only
// through p. The other targets are random pages of the same host and of other hosts.
func (w *Web) links(dst []target, p page) []target {
	w.shape.children(p, func(child page) { dst = append(dst, target{kind: aPage, page: child}) })
	if w.ownsChain(p) {
		dst = append(dst, target{kind: aHop, page: p})
	}
	if p.index == 0 && p.host < w.deadHosts() {
		for part := range deadPages {
			dst = append(dst, target{kind: aDeadPage, page: page{host: p.host}, part: part})
		}
	}
	if w.isMix() {
		return w.mixLinksOf(dst, p)
	}
	d := w.roll(forLinks, p)
	many := -math.Log(1-d.unit()) * float64(w.cfg.MeanLinks) // exponential: many pages have few links, and few pages have many
	for range int(min(many, 8*float64(w.cfg.MeanLinks))) {
		dst = append(dst, target{kind: aPage, page: w.popular(&d, p)})
	}
	if w.has(Spellings) { // repeat some links, which are then spelled in another way
		for i, n := 0, len(dst); i < n; i += 4 {
			dst = append(dst, dst[i])
		}
	}
	return dst
}

// popular returns a random target for a link of p. In two of three cases, the target is
// on the same host. The number of links to a host or page decreases as a power of its
// rank, as on the real web (Broder and others, WWW 2000).
func (w *Web) popular(d *dice, p page) page {
	to := p
	if d.intn(3) == 0 {
		u := d.unit()
		to.host = int(u * u * math.Sqrt(u) * float64(w.shape.hosts()))
	}
	u := d.unit()
	to.index = int(u * u * u * float64(w.shape.size(to.host)))
	return to
}
