package testweb

import (
	"net/http"
	"strconv"
	"strings"
)

// redirects: pages link to chains of one to five redirects that end at a page,
// stay on the host or cross others, or run in a circle, the smallest being a
// URL that redirects to itself. Each hop is a URL of its own and only reached
// through the one before it, so that a crawler's count of hops does not depend
// on the order of the crawl.
var redirects = hardship{
	bit: Redirects, name: "redirects",
	doc: "chains of up to five redirects, across hosts, and loops",
}

const maxHops = 5

// A chain is the redirects that one page, its owner, links to.
type chain struct {
	hops  int  // 1 to maxHops
	loops bool // the last hop leads back to hop back; otherwise to end
	back  int
	end   page
}

// ownsChain reports whether p links to a redirect chain: every other page of
// those that are surely read.
func (w *Web) ownsChain(p page) bool {
	return w.has(Redirects) && p.index%2 == 0 && w.shape.inner(p)
}

func (w *Web) chainOf(owner page) chain {
	d := w.roll(forChain, owner)
	c := chain{hops: 1 + d.below(maxHops), loops: d.oneIn(5)}
	if c.loops {
		c.back = d.below(c.hops)
		return c
	}
	c.end.host = d.below(w.shape.hosts())
	c.end.index = d.below(w.shape.size(c.end.host))
	return c
}

// hopHost returns where the hop-th redirect of owner's chain is: at home, or
// in half of the chains anywhere.
func (w *Web) hopHost(owner page, hop int) int {
	if drawn := w.draw(forChain, owner); drawn%2 == 0 {
		return int(mix(drawn+uint64(hop)) % uint64(w.shape.hosts()))
	}
	return owner.host
}

// afterHop returns where the hop-th redirect of owner's chain leads.
func (w *Web) afterHop(owner page, hop int) target {
	c := w.chainOf(owner)
	switch {
	case hop+1 < c.hops:
		return target{kind: aHop, page: owner, part: hop + 1}
	case c.loops:
		return target{kind: aHop, page: owner, part: c.back}
	}
	return target{kind: aPage, page: c.end}
}

var redirectStatuses = [...]int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

func (w *Web) hopStatus(owner page, hop int) int {
	drawn := mix(w.draw(forChain, owner) + uint64(hop+maxHops))
	return redirectStatuses[drawn%uint64(len(redirectStatuses))]
}

// appendHopPath appends /go/OWNER'S HOST-OWNER/HOP.
func appendHopPath(dst []byte, owner page, hop int) []byte {
	dst = append(dst, "/go/"...)
	dst = strconv.AppendInt(dst, int64(owner.host), 10)
	dst = append(dst, '-')
	dst = strconv.AppendInt(dst, int64(owner.index), 10)
	dst = append(dst, '/')
	return strconv.AppendInt(dst, int64(hop), 10)
}

// parseHop is the reverse of appendHopPath on the hop's own host.
func (w *Web) parseHop(host int, path string) (t target, known bool) {
	names, is := strings.CutPrefix(path, "/go/")
	owner, hopName, hasHop := strings.Cut(names, "/")
	ownerHost, ownerIndex, hasIndex := strings.Cut(owner, "-")
	if !is || !hasHop || !hasIndex {
		return t, false
	}
	h, ok1 := parseNumber(ownerHost)
	index, ok2 := parseNumber(ownerIndex)
	hop, ok3 := parseNumber(hopName)
	if !ok1 || !ok2 || !ok3 || h >= w.shape.hosts() || index >= w.shape.size(h) {
		return t, false
	}
	p := page{h, index}
	known = w.ownsChain(p) && hop < w.chainOf(p).hops && w.hopHost(p, hop) == host
	return target{kind: aHop, page: p, part: hop}, known
}

// location returns the Location header of a hop: the canonical URL, or with
// spellings one that is relative or in other case.
func (w *Web) location(owner page, hop int) string {
	t := w.afterHop(owner, hop)
	if !w.has(Spellings) {
		return w.url(t)
	}
	host, from := w.hostOf(t), w.hopHost(owner, hop)
	switch d := (dice{w.draw(forChain, owner) + uint64(hop+2*maxHops)}); {
	case host == from && d.oneIn(2):
		return string(w.appendTargetPath(nil, t))
	case d.oneIn(3):
		return "//" + strings.ToUpper(hostName(host)) + string(w.appendTargetPath(nil, t))
	case d.oneIn(3):
		return strings.ToUpper(w.scheme) + "://" + hostName(host) + w.defaultPort() + string(w.appendTargetPath(nil, t))
	}
	return w.url(t)
}
