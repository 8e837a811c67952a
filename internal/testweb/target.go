package testweb

import "strings"

type targetKind uint8

const (
	unknown     targetKind = iota // the web has no such URL
	aPage                         // the generated page target.page
	aHop                          // the redirect with the number target.part in the chain of target.page
	aDeadPage                     // the page with the number target.part on a dead host, whose number is target.page.host
	aRobots                       // robots.txt of the living host with the number target.page.host
	aDeadRobots                   // robots.txt of the dead host with the number target.page.host
	aResource                     // a URL of a corner: target.resource
	noSitemap                     // a path where crawlers look for a sitemap, but without one
)

// A target is what a canonical URL refers to. Its kind decides which of the other
// fields are used.
type target struct {
	kind     targetKind
	page     page
	part     int
	resource *resource
}

// target returns the target of a request for a path and query of a host. It accepts
// only the canonical spelling of the path.
func (w *Web) target(host, path string) target {
	t, known := w.drawn(host, path)
	if !known {
		t, known = w.corners.find(host, path)
	}
	if t.kind == unknown && known && w.has(Sitemaps) && isSitemapPath(path) {
		t.kind = noSitemap
	}
	return t
}

// isHost reports whether the web has a host with that name. It ignores the hosts of
// corners.
func (w *Web) isHost(name string) bool {
	_, known := w.drawn(name, "")
	return known
}

// drawn returns the target of a request for a host with generated pages or for a dead
// host. known reports whether host is such a host.
func (w *Web) drawn(host, path string) (t target, known bool) {
	if d, isDead := w.parseDeadName(host); isDead {
		if path == "/robots.txt" {
			return target{kind: aDeadRobots, page: page{host: d}}, true
		}
		if part, is := parseDeadPath(path); is {
			return target{kind: aDeadPage, page: page{host: d}, part: part}, true
		}
		return target{}, true
	}
	h, known := parseHost(host)
	if !known || h >= w.shape.hosts() {
		return target{}, false
	}
	if path == "/robots.txt" {
		return target{kind: aRobots, page: page{host: h}}, true
	}
	if p, is := w.parsePath(h, path); is {
		return target{kind: aPage, page: p}, true
	}
	return w.parseHop(h, path), true
}

func (w *Web) targetOf(url string) target {
	rest, isOurs := strings.CutPrefix(url, w.scheme+"://")
	slash := strings.IndexByte(rest, '/')
	if !isOurs || slash < 0 {
		return target{}
	}
	host := rest[:slash]
	if s := w.corners.sites[bareHost(host)]; s != nil {
		if s.host != host {
			return target{} // another port
		}
		host = bareHost(host)
	}
	return w.target(host, rest[slash:])
}

// hostOf returns the number of the living host of a page or hop.
func (w *Web) hostOf(t target) int {
	if t.kind == aHop {
		return w.hopHost(t.page, t.part)
	}
	return t.page.host
}

func (w *Web) appendTargetHost(dst []byte, t target) []byte {
	if t.resource != nil {
		return append(dst, t.resource.host...)
	}
	if t.kind == aDeadPage || t.kind == aDeadRobots {
		return append(dst, deadName(t.page.host)...)
	}
	return appendHost(dst, w.hostOf(t))
}

func (w *Web) appendTargetPath(dst []byte, t target) []byte {
	switch t.kind {
	case aPage:
		return w.appendPath(dst, t.page)
	case aHop:
		return appendHopPath(dst, t.page, t.part)
	case aDeadPage:
		return appendDeadPath(dst, t.part)
	case aResource:
		return append(dst, t.resource.path...)
	default:
		return append(dst, "/robots.txt"...)
	}
}

func (w *Web) appendURL(dst []byte, t target) []byte {
	dst = append(append(dst, w.scheme...), "://"...)
	dst = w.appendTargetHost(dst, t)
	return w.appendTargetPath(dst, t)
}

func (w *Web) url(t target) string { return string(w.appendURL(nil, t)) }

// isExpected reports whether a crawl should find t, or can find it.
func (t target) isExpected() bool {
	switch t.kind {
	case aPage, aHop, aDeadPage:
		return true
	case aResource:
		return t.resource.role < aside
	}
	return false
}

// each calls the function visit for every URL that a crawl should find, until visit
// returns false.
func (w *Web) each(visit func(target) bool) {
	if w.isMix() {
		w.eachReachable(visit)
		return
	}
	for host := range w.shape.hosts() {
		for index := range w.shape.size(host) {
			p := page{host, index}
			if !visit(target{kind: aPage, page: p}) {
				return
			}
			if !w.ownsChain(p) {
				continue
			}
			for hop := range w.chainOf(p).hops {
				if !visit(target{kind: aHop, page: p, part: hop}) {
					return
				}
			}
		}
	}
	for d := range w.deadHosts() {
		for part := range deadPages {
			if !visit(target{kind: aDeadPage, page: page{host: d}, part: part}) {
				return
			}
		}
	}
	w.corners.each(visit)
}
