package testweb

import (
	"fmt"
	"net/http"
	"strings"
)

// redirects is a hardship: pages link to chains of one to five redirects. A chain ends
// at a page, or leads back to one of its own redirects. Its redirects are on one host
// or on several. A crawl reaches each redirect of a chain only through the redirect
// before it. So the number of redirects in a row does not depend on the order of the
// crawl.
var redirects = hardship{
	bit: Redirects, name: "redirects",
	doc: "chains of up to five redirects, across hosts, and loops",
}

const maxHops = 5

// A chain is a chain of redirects, which are called hops. The owner of the chain is the
// page that links to the first hop.
type chain struct {
	hops    int  // number of redirects, 1 to maxHops
	loops   bool // whether the last hop leads to loopHop; otherwise it leads to endPage
	loopHop int  // number of a hop
	endPage page
}

// ownsChain reports whether p links to a chain of redirects. Only pages with child pages
// link to chains, because every correct crawl reads these pages. Half of them link to one.
func (w *Web) ownsChain(p page) bool {
	return w.has(Redirects) && p.index%2 == 0 && w.shape.inner(p)
}

func (w *Web) chainOf(owner page) chain {
	d := w.roll(forChain, owner)
	c := chain{hops: 1 + d.intn(maxHops), loops: d.oneIn(5)}
	if c.loops {
		c.loopHop = d.intn(c.hops)
		return c
	}
	c.endPage.host = d.intn(w.shape.hosts())
	c.endPage.index = d.intn(w.shape.size(c.endPage.host))
	return c
}

// hopHost returns the host of redirect number hop of owner's chain. In half of the
// chains it is a random host, in the others it is owner's host.
func (w *Web) hopHost(owner page, hop int) int {
	if drawn := w.draw(forChain, owner); drawn%2 == 0 {
		return int(mix(drawn+uint64(hop)) % uint64(w.shape.hosts()))
	}
	return owner.host
}

// afterHop returns the target of redirect number hop of owner's chain.
func (w *Web) afterHop(owner page, hop int) target {
	c := w.chainOf(owner)
	switch {
	case hop+1 < c.hops:
		return target{kind: aHop, page: owner, part: hop + 1}
	case c.loops:
		return target{kind: aHop, page: owner, part: c.loopHop}
	}
	return target{kind: aPage, page: c.endPage}
}

var redirectStatuses = [...]int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

func (w *Web) hopStatus(owner page, hop int) int {
	drawn := mix(w.draw(forChain, owner) + uint64(hop+maxHops))
	return redirectStatuses[drawn%uint64(len(redirectStatuses))]
}

// appendHopPath appends /go/HOST-INDEX/HOP, with the host and index of owner.
func appendHopPath(dst []byte, owner page, hop int) []byte {
	return fmt.Appendf(dst, "/go/%d-%d/%d", owner.host, owner.index, hop)
}

// parseHop is the reverse of appendHopPath. host is the host of the redirect. The result
// has the kind unknown if there is no such redirect.
func (w *Web) parseHop(host int, path string) target {
	var p page
	var hop int
	_, err := fmt.Sscanf(path, "/go/%d-%d/%d", &p.host, &p.index, &hop)
	if err != nil || string(appendHopPath(nil, p, hop)) != path || min(p.host, p.index, hop) < 0 ||
		p.host >= w.shape.hosts() || p.index >= w.shape.size(p.host) ||
		!w.ownsChain(p) || hop >= w.chainOf(p).hops || w.hopHost(p, hop) != host {
		return target{}
	}
	return target{kind: aHop, page: p, part: hop}
}

// location returns the Location header of a redirect: the canonical URL or, with
// the hardship Spellings, sometimes another spelling of it.
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
