package testweb

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// corners are the additional hosts that some hardships have. Each URL of these hosts is
// written by hand, together with the result that a correct crawl has for it. A crawl
// finds all of them from one page, http://corners.test/.
type corners struct {
	year     int    // of the crawl
	canary   string // suffix of a host with the port of the canaries; see portOf
	sitemaps bool   // whether the crawl reads sitemaps

	sites     map[string]*site // by host name
	resources []*resource      // in the order in which they were made
	index     *resource        // the page that links to entries; nil if there are no corners
	entries   []string
}

// A site is a host of a corner.
type site struct {
	corners   *corners
	host      string // with the port, if it has one
	resources map[string]*resource
	list      []string // paths that the root page links to; see addListed
	// trap returns the resource at a path beyond the limits of a correct crawl, such as a
	// page of an endless calendar. If trap is nil or returns nil, there is no resource.
	trap func(path string) *resource
	// endless returns the series, text and links of a page of an endless site; see endlessSite. It is optional.
	endless func(path string) (series, text string, links []string)
}

// role says whether a crawl should request a resource.
type role uint8

const (
	sought   role = iota // found, and recorded
	optional             // requested and recorded, or not: crawlers differ in what they treat as a link
	closed               // recorded, but never requested: robots.txt or the address forbids it
	aside                // requested, but never recorded: robots.txt, and the targets of its redirects
	trapped              // neither requested nor recorded: beyond the limits of a correct crawl
	// withoutEnd: at most mostOfSeries of its series are requested. Any number is recorded, as ok or dropped.
	withoutEnd
)

// A resource is one URL of a corner.
type resource struct {
	role role
	host string // with the port, if it has one
	path string // with the query

	series string // of an endless site

	status      int
	contentType string // empty means that no Content-Type is sent
	header      http.Header
	location    string
	plain       func(out io.Writer) error // writes the body without its content coding
	packed      func(out io.Writer) error // writes the body as it is sent; nil means plain
	isLive      bool                      // the body is sent while it is written, because it can be endless

	raw func(try int) string // the whole answer as it is sent; nil means that net/http writes it

	fails     int // number of requests that fail before a good answer; forever if none is good
	badStatus int // status of the failures, or one of the values below
	tries     int // requests so far; Web.mu guards it

	limit   int64 // number of bytes that a correct crawl reads; 0 means Config.MaxBodyBytes
	want    Expectation
	refused map[string]uint64 // number of its links that a correct crawl refuses, by reason
}

// Values of resource.badStatus that are not HTTP statuses.
const (
	broken   = 0  // the connection is reset
	noAnswer = -1 // the server sends nothing
	asGood   = -2 // the answer is the good one, but a correct crawl treats it as a failure
)

// leastCornerBody is the minimum of Config.MaxBodyBytes for webs with corners. Ordinary
// pages of corners are not longer.
const leastCornerBody = 256 << 10

// newCorners returns the corners of the hardships of a web.
func newCorners(cfg *Config) *corners {
	c := &corners{
		year: cfg.Year, canary: portOf(cfg.CanaryPort),
		sitemaps: cfg.Hardships&Sitemaps != 0, sites: map[string]*site{},
	}
	if cfg.Hardships&hasCorner == 0 {
		return c
	}
	index := c.site("corners.test").page("/")
	c.index = index
	for _, h := range hardships() {
		if cfg.Hardships&h.bit != 0 && h.corner != nil {
			h.corner(c)
		}
	}
	index.html(c.entries...)
	for _, name := range c.hosts() {
		if s := c.sites[name]; s.resources["/robots.txt"] == nil {
			s.robots("Not found.\n").status = http.StatusNotFound
		}
	}
	return c
}

// site returns the site of a host. It adds the site if it is new.
func (c *corners) site(host string) *site {
	name := bareHost(host)
	if c.sites[name] == nil {
		c.sites[name] = &site{corners: c, host: host, resources: map[string]*resource{}}
	}
	return c.sites[name]
}

// entry adds a link to the index page of the corners. url can have any spelling.
func (c *corners) entry(url string) { c.entries = append(c.entries, url) }

// bareHost returns the name of a host without its port.
func bareHost(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		return host[:colon]
	}
	return host
}

// find returns the resource at a path of a host. known reports whether the host belongs
// to a corner.
func (c *corners) find(host, path string) (t target, known bool) {
	s := c.sites[host]
	if s == nil {
		return target{}, false
	}
	if found := s.resources[path]; found != nil {
		return target{kind: aResource, resource: found}, true
	}
	if s.trap != nil {
		if further := s.trap(path); further != nil {
			further.role, further.host, further.path = trapped, s.host, path
			return target{kind: aResource, resource: further}, true
		}
	}
	if s.endless != nil {
		if page := s.endlessAt(path); page != nil {
			return target{kind: aResource, resource: page}, true
		}
	}
	return target{}, true
}

// add adds a resource with status 200 and without a body.
func (s *site) add(path string, as role) *resource {
	if s.resources[path] != nil {
		panic("testweb: " + s.host + path + " is there already")
	}
	p := newResource()
	p.role, p.host, p.path = as, s.host, path
	p.want = Expectation{URL: p.url(), Outcome: "ok", Status: http.StatusOK, OrderFree: true, Optional: as == optional}
	s.resources[path] = p
	s.corners.resources = append(s.corners.resources, p)
	return p
}

// newResource returns a resource without a path, for site.trap.
func newResource() *resource {
	return &resource{status: http.StatusOK, contentType: contentHTML, header: http.Header{}}
}

func (p *resource) url() string { return "http://" + p.host + p.path }

// page adds an HTML page with the given links.
func (s *site) page(path string, links ...string) *resource {
	return s.add(path, sought).html(links...)
}

// pages adds a page without links at each of the paths.
func (s *site) pages(paths ...string) {
	for _, path := range paths {
		s.page(path)
	}
}

// enter adds an HTML page with the given links. The index page of the corners links to the
// new page.
func (s *site) enter(path string, links ...string) *resource {
	s.corners.entry("http://" + s.host + path)
	return s.page(path, links...)
}

// addListed adds an HTML page with the given links. At the end of the site's root page, it
// adds a link to the new page. The root page must exist.
func (s *site) addListed(path string, links ...string) *resource {
	s.list = append(s.list, path)
	s.resources["/"].html(s.list...)
	return s.page(path, links...)
}

// addClosed adds pages that robots.txt disallows. The server answers requests for them,
// but the judge reports such requests.
func (s *site) addClosed(paths ...string) {
	for _, path := range paths {
		s.add(path, closed).html().expects("robots", 0)
	}
}

// robots answers /robots.txt with text.
func (s *site) robots(text string) *resource { return s.robotsAt("/robots.txt", text) }

// robotsAt adds a robots.txt at path, which is /robots.txt or the target of redirects from
// a /robots.txt.
func (s *site) robotsAt(path, text string) *resource {
	p := s.add(path, aside).body([]byte(text))
	p.contentType = "text/plain"
	return p
}

// redirect adds a redirect at path. canonical is the canonical form of location.
func (s *site) redirect(path, location, canonical string) *resource {
	p := s.add(path, sought).html().expects("redirect", http.StatusFound)
	p.status, p.location, p.want.RedirectTo = http.StatusFound, location, canonical
	return p
}

func (s *site) missing(path string) *resource {
	p := s.add(path, sought).html().expects("client_error", http.StatusNotFound)
	p.status = http.StatusNotFound
	return p
}

// titleOf returns the title of the page that the method html makes.
func (p *resource) titleOf() string {
	title := "Corner " + p.host + " " + p.path
	return title[:min(len(title), 200)] // crawlers can cut longer titles
}

// html turns p into a page with the given links.
func (p *resource) html(links ...string) *resource {
	return p.document(p.titleOf(), documentOf(p.titleOf(), links))
}

// document turns p into a page with the given title and HTML.
func (p *resource) document(title string, text []byte) *resource {
	p.body(text).want.Title = title
	return p
}

func documentOf(title string, links []string) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>" + html.EscapeString(title) + "</title>\n</head>\n<body>\n")
	for _, link := range links {
		b.WriteString("<p><a href=\"" + html.EscapeString(link) + "\">There</a> is more.</p>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return b.Bytes()
}

func (p *resource) body(text []byte) *resource {
	p.isLive = false
	p.plain = func(out io.Writer) error {
		_, err := out.Write(text)
		return err
	}
	p.want.isRead = true
	return p
}

// stream uses the output of the function write as the body of p. The body can be endless.
func (p *resource) stream(write func(out io.Writer) error) *resource {
	p.plain, p.isLive, p.want.isRead = write, true, true
	return p
}

// expects sets the expected outcome and the expected last status of p. A status of 0
// means no status.
func (p *resource) expects(outcome string, status int) *resource {
	p.want.Outcome, p.want.Status = outcome, status
	if outcome != "ok" {
		p.want.Title, p.want.isRead = "", false
	}
	return p
}

// alsoAccepts adds further outcomes that are right. It is for pages whose outcome depends
// on the order of the crawl or on the crawler.
func (p *resource) alsoAccepts(outcomes ...string) *resource {
	p.want.Also, p.want.OrderFree = append(p.want.Also, outcomes...), false
	return p
}

// failing makes the first answers of p fail. status is their HTTP status, or broken,
// noAnswer or asGood.
func (p *resource) failing(times, status int) *resource {
	p.fails, p.badStatus = times, status
	return p
}

// refuses states that a correct crawl refuses some links of p for the given reason. links
// is the number of these links, in addition to those of earlier calls.
func (p *resource) refuses(reason string, links uint64) *resource {
	if p.refused == nil {
		p.refused = map[string]uint64{}
	}
	p.refused[reason] += links
	return p
}

func (p *resource) with(name string, values ...string) *resource {
	p.header[http.CanonicalHeaderKey(name)] = values
	return p
}

// withType sets the content type. Empty means that none is sent.
func (p *resource) withType(contentType string) *resource {
	p.contentType = contentType
	return p
}

// answer stores the answer to a request for p in *a. The argument try is the number of
// earlier requests for p.
func (p *resource) answer(a *answer, try int) {
	a.status, a.contentType, a.location = p.status, p.contentType, p.location
	a.header = p.header
	write := p.packed
	if write == nil {
		write = p.plain
	}
	if p.isLive {
		a.stream = write
	} else {
		a.body = func(dst []byte) []byte {
			body := bytes.NewBuffer(dst)
			_ = write(body) // writes to a buffer do not fail
			return body.Bytes()
		}
	}
	if p.raw != nil {
		a.raw = []byte(p.raw(try))
		return
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

// digest returns the SHA-256 of the part of p's body that a correct crawl reads. isRead
// is false if the body is not judged.
func (p *resource) digest(maxBody int64) (digest string, isRead bool) {
	if !p.want.isRead || p.role == aside || p.role == trapped || p.role == withoutEnd {
		return "", false
	}
	hash := sha256.New()
	_ = p.plain(&limitedWriter{hash, cmp.Or(p.limit, maxBody)}) // a write fails at the limit, so even an endless body ends
	return hex.EncodeToString(hash.Sum(nil)), true
}

// limitedWriter passes a limited number of bytes on to out. After that, Write fails.
type limitedWriter struct {
	out  io.Writer
	left int64
}

func (a *limitedWriter) Write(b []byte) (int, error) {
	fits := b[:min(int64(len(b)), a.left)]
	a.left -= int64(len(fits))
	n, err := a.out.Write(fits)
	if err == nil && len(fits) < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// each calls the function visit for the resources that a crawl should find, until visit
// returns false.
func (c *corners) each(visit func(target) bool) (goOn bool) {
	for _, p := range c.resources {
		if (p.role == sought || p.role == closed) && !visit(target{kind: aResource, resource: p}) {
			return false
		}
	}
	return true
}

// hosts returns the names of all hosts, without ports, in order.
func (c *corners) hosts() []string { return slices.Sorted(maps.Keys(c.sites)) }
