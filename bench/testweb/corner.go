package testweb

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// corners are the hosts that some hardships bring with them, beside the pages
// that are drawn: each URL is written by hand there, with what a correct crawl
// makes of it. All are found from one page, http://corners.test/.
type corners struct {
	agent    string // the product token that robots.txt knows
	year     int    // of the crawl
	canary   string // port of the canaries
	sitemaps bool   // the crawl takes sitemaps

	sites map[string]*site // by host name
	spots []*spot          // in the order in which they were made
	lobby *spot            // links to the entries of all corners; nil: there is none
	doors []string
}

// A site is a host of a corner.
type site struct {
	corners *corners
	host    string // with the port, if it has one
	spots   map[string]*spot
	// beyond makes the answers to URLs that a trap goes on with, where a correct
	// crawl does not follow; nil, or a nil answer: there is nothing.
	beyond func(path string) *spot
}

// role is what a crawl has to do with a spot.
type role uint8

const (
	sought   role = iota // found, and recorded
	optional             // recorded or not: it depends on what the crawl takes for a link
	closed               // recorded, but never asked for: robots.txt or the address forbids it
	aside                // asked for, but never recorded: robots.txt and where it redirects to
	trapped              // behind the limits of what a crawl follows
)

// A spot is one URL of a corner.
type spot struct {
	number int
	role   role
	host   string // with the port, if it has one
	path   string // and query

	status      int
	contentType string // empty: none is sent
	header      http.Header
	location    string
	plain       func(out io.Writer) error // writes the body before it is packed
	packed      func(out io.Writer) error // writes it as it is sent; nil: as plain
	isLive      bool                      // the body may have no end: it is sent while it is written

	fails     int // requests that are answered badly before a good answer; forever
	badStatus int // of these, or one of those below
	tries     int // so far; Web.mu guards it

	limit   int64 // how much of the body is read; 0: Config.MaxBodyBytes
	want    Expectation
	refused map[string]uint64 // of its links, by reason
}

// What a spot can have as its badStatus beside a status.
const (
	broken   = 0  // the connection is reset
	noAnswer = -1 // nothing comes
	asGood   = -2 // the answer is the good one, but no crawler takes it
)

// leastCornerBody holds the longest page of a corner that is not to be cut.
const leastCornerBody = 256 << 10

// newCorners lets the hardships of a web build their corners.
func newCorners(cfg *Config) *corners {
	c := &corners{
		agent: cfg.Agent, year: cfg.Year, canary: portOf(cfg.CanaryPort),
		sitemaps: cfg.Hardships&Sitemaps != 0, sites: map[string]*site{},
	}
	if cfg.Hardships&Corners == 0 {
		return c
	}
	lobby := c.site("corners.test").page("/")
	c.lobby = lobby
	for _, h := range hardships() {
		if cfg.Hardships&h.bit != 0 && h.corner != nil {
			h.corner(c)
		}
	}
	lobby.html(c.doors...)
	for _, name := range c.hosts() {
		if s := c.sites[name]; s.spots["/robots.txt"] == nil {
			s.robots("Not found.\n").status = http.StatusNotFound
		}
	}
	return c
}

// site returns the site of that name.
func (c *corners) site(host string) *site {
	name := bareHost(host)
	if c.sites[name] == nil {
		c.sites[name] = &site{corners: c, host: host, spots: map[string]*spot{}}
	}
	return c.sites[name]
}

// door makes a URL, however it is spelled, one that the crawl begins with.
func (c *corners) door(url string) { c.doors = append(c.doors, url) }

// bareHost returns the name of a host without its port.
func bareHost(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		return host[:colon]
	}
	return host
}

// find returns what a path of a corner's host is, and whether host is one.
func (c *corners) find(host, path string) (t target, known bool) {
	s := c.sites[host]
	if s == nil {
		return target{}, false
	}
	if found := s.spots[path]; found != nil {
		return target{kind: aSpot, spot: found}, true
	}
	if s.beyond != nil {
		if further := s.beyond(path); further != nil {
			further.role, further.host, further.path = trapped, s.host, path
			return target{kind: aSpot, spot: further}, true
		}
	}
	return target{}, true
}

// add puts a new spot at path, answered with 200.
func (s *site) add(path string, as role) *spot {
	if s.spots[path] != nil {
		panic("testweb: " + s.host + path + " is there already")
	}
	p := newSpot()
	p.number, p.role, p.host, p.path = len(s.corners.spots), as, s.host, path
	p.want = Expectation{URL: p.url(), Outcome: "ok", Status: http.StatusOK, OrderFree: true, Optional: as == optional}
	s.spots[path] = p
	s.corners.spots = append(s.corners.spots, p)
	return p
}

// newSpot returns one without a place, for what is beyond.
func newSpot() *spot {
	return &spot{status: http.StatusOK, contentType: contentHTML, header: http.Header{}}
}

func (p *spot) url() string { return "http://" + p.host + p.path }

// page puts an HTML page with those links at path.
func (s *site) page(path string, links ...string) *spot { return s.add(path, sought).html(links...) }

// pages puts a page without links at each of the paths.
func (s *site) pages(paths ...string) {
	for _, path := range paths {
		s.page(path)
	}
}

// enter is page, for one that the crawl begins with.
func (s *site) enter(path string, links ...string) *spot {
	s.corners.door("http://" + s.host + path)
	return s.page(path, links...)
}

// closed puts pages there that robots.txt disallows. They are answered like
// others to whoever asks: the judge sees it.
func (s *site) closed(paths ...string) {
	for _, path := range paths {
		s.add(path, closed).html().fares("robots", 0)
	}
}

// robots answers /robots.txt with text.
func (s *site) robots(text string) *spot { return s.robotsAt("/robots.txt", text) }

// robotsAt is robots at another place, which /robots.txt redirects to.
func (s *site) robotsAt(path, text string) *spot {
	p := s.add(path, aside).body([]byte(text))
	p.contentType = "text/plain"
	return p
}

// redirect puts a redirect at path, whose target is canonical.
func (s *site) redirect(path, location, canonical string) *spot {
	p := s.add(path, sought).html().fares("redirect", http.StatusFound)
	p.status, p.location, p.want.RedirectTo = http.StatusFound, location, canonical
	return p
}

// missing puts a 404 at path.
func (s *site) missing(path string) *spot {
	p := s.add(path, sought).html().fares("client_error", http.StatusNotFound)
	p.status = http.StatusNotFound
	return p
}

// titleOf returns the title of a page that html writes.
func (p *spot) titleOf() string {
	title := "Corner " + p.host + " " + p.path
	return title[:min(len(title), 200)] // crawlers keep no title of any length
}

// html makes p a page with those links.
func (p *spot) html(links ...string) *spot {
	return p.document(p.titleOf(), documentOf(p.titleOf(), links))
}

// document makes p a page of that HTML.
func (p *spot) document(title string, text []byte) *spot {
	p.body(text).want.Title = title
	return p
}

// documentOf returns an HTML page.
func documentOf(title string, links []string) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>" + html.EscapeString(title) + "</title>\n</head>\n<body>\n")
	for _, link := range links {
		b.WriteString("<p><a href=\"" + html.EscapeString(link) + "\">There</a> is more.</p>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return b.Bytes()
}

// body makes text the body of p.
func (p *spot) body(text []byte) *spot {
	p.isLive = false
	p.plain = func(out io.Writer) error {
		_, err := out.Write(text)
		return err
	}
	p.want.isRead = true
	return p
}

// stream makes what write writes the body of p.
func (p *spot) stream(write func(out io.Writer) error) *spot {
	p.plain, p.isLive, p.want.isRead = write, true, true
	return p
}

// fares sets the outcome of a crawl that asks for p, and the last status; 0:
// there is none.
func (p *spot) fares(outcome string, status int) *spot {
	p.want.Outcome, p.want.Status = outcome, status
	if outcome != "ok" {
		p.want.Title, p.want.isRead = "", false
	}
	return p
}

// also makes these outcomes right as well, for they depend on the order or on
// what a crawler calls it.
func (p *spot) also(outcomes ...string) *spot {
	p.want.Also, p.want.OrderFree = append(p.want.Also, outcomes...), false
	return p
}

// failing makes the first answers bad ones: of that status, or broken, noAnswer,
// asGood.
func (p *spot) failing(times, status int) *spot {
	p.fails, p.badStatus = times, status
	return p
}

// refuses expects that the crawl refuses so many links of p.
func (p *spot) refuses(reason string, links uint64) *spot {
	if p.refused == nil {
		p.refused = map[string]uint64{}
	}
	p.refused[reason] += links
	return p
}

// with sets a header of the answer.
func (p *spot) with(name string, values ...string) *spot {
	p.header[http.CanonicalHeaderKey(name)] = values
	return p
}

// typed sets the content type; empty: none is sent.
func (p *spot) typed(contentType string) *spot {
	p.contentType = contentType
	return p
}

// answer decides the answer to a request that comes after try others.
func (p *spot) answer(a *answer, try int) {
	a.status, a.contentType, a.location = p.status, p.contentType, p.location
	a.header = p.header
	a.stream, a.isLive = p.packed, p.isLive
	if a.stream == nil {
		a.stream = p.plain
	}
	if try >= p.fails || p.badStatus == asGood {
		return
	}
	switch a.refuse(p.badStatus); p.badStatus {
	case broken:
		a.cut = cutReset
	case noAnswer:
		a.cut, a.wait = cutClose, 10*time.Minute
	}
}

// digest returns the SHA-256 of what a correct crawl reads of p, and false if
// its body is not judged.
func (p *spot) digest(maxBody int64) (digest string, isRead bool) {
	if !p.want.isRead || p.role == aside || p.role == trapped {
		return "", false
	}
	hash := &atMost{out: sha256.New(), left: cmp.Or(p.limit, maxBody)}
	_ = p.plain(hash) // it ends at the limit, at the latest
	return hex.EncodeToString(hash.out.Sum(nil)), true
}

// atMost passes on what fits, then fails.
type atMost struct {
	out interface {
		io.Writer
		Sum([]byte) []byte
	}
	left int64
}

func (a *atMost) Write(b []byte) (int, error) {
	fits := b[:min(int64(len(b)), a.left)]
	a.left -= int64(len(fits))
	n, err := a.out.Write(fits)
	if err == nil && len(fits) < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// each calls visit for the spots that a crawl should find, until it returns false.
func (c *corners) each(visit func(target) bool) (goOn bool) {
	for _, p := range c.spots {
		if (p.role == sought || p.role == closed) && !visit(target{kind: aSpot, spot: p}) {
			return false
		}
	}
	return true
}

// hosts returns the names of all hosts, without ports, in order.
func (c *corners) hosts() (names []string) {
	for name := range c.sites {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
