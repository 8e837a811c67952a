package testweb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Hardships is a set of difficulties for crawlers.
type Hardships uint64

const (
	Latency Hardships = 1 << iota
	ClientErrors
	ServerErrors
	Throttling
	Resets
	Slow
	Redirects
	Huge
	Robots
	Spellings
	Types
	Deep
	Dead
	Gzip

	// The following hardships have corners: additional hosts that have only this
	// difficulty.
	FailingRobots
	HugeRobots
	MovedRobots
	MalformedRobots
	RobotsTags
	Sitemaps
	LargeSitemaps
	Calendar
	Sessions
	Tracking
	Facets
	RepeatedPaths
	LongURLs
	Charsets
	Codings
	Bombs
	Endless
	Headers
	Nesting
	OddLinks
	Addresses

	// OddAnswers, OddMarkup, Feeds and Numbered have corners too, but are in no set: they must be named.
	OddAnswers
	OddMarkup
	Feeds
	Numbered

	None       Hardships = 0
	All        Hardships = Gzip<<1 - 1            // all hardships of generated pages
	Corners    Hardships = Addresses<<1 - 1 - All // all hardships with a corner
	Everything Hardships = All | Corners

	hasCorner = Corners | OddAnswers | OddMarkup | Feeds | Numbered
)

// A hardship adds pages that do not behave like plain pages, or changes the answers of
// pages. To add a hardship, add a constant above, a variable of this type, and an entry
// in the function hardships.
type hardship struct {
	bit  Hardships
	name string // in --hardships
	doc  string // one line for --help

	leaves   []leaf                               // fates that depend on the page alone
	slots    []slot                               // fates that depend on the number of requests, or are expensive
	decorate func(w *Web, p page, answer *answer) // changes the answer for an ordinary page
	corner   func(c *corners)                     // adds hosts
}

// A leaf gives a fate to some of the pages without child pages. The field share is the
// average number of pages with this fate in 1024 such pages.
type leaf struct {
	share int
	fate  *fate
}

// A slot chooses the fate of one page of a host. nil means a plain page. A host has at
// most one page for each slot, and these pages are far from each other. The web counts the
// requests for these pages, but not those for other generated pages. So slots limit the
// memory of the web and the number of failures of a host, however large the host is.
type slot func(w *Web, host int) *fate

// A fate is the behaviour of a page when a crawler requests it.
type fate struct {
	name      string
	outcome   string // recorded by a correct crawl
	status    int    // of the last answer; 0 if there is none
	fails     int    // number of requests that fail before a good answer; forever if none is good
	truncated bool   // the body is longer than Config.MaxBodyBytes
	// inner replaces this fate if the page has child pages and this fate would hide the
	// child pages from a correct crawl. nil means plain.
	inner *fate
	// answer changes the answer to a request. try is the number of earlier requests.
	// nil means that the answer is the page.
	answer func(w *Web, p page, try int, answer *answer)
}

// forever is larger than the number of requests that any crawl makes for one page.
const forever = 1 << 30

// plain is the fate of a page that is answered with its HTML.
var plain = &fate{name: "plain", outcome: "ok", status: 200}

// hasLinks reports whether a correct crawl reads the page and its links.
func (f *fate) hasLinks() bool { return f.outcome == "ok" }

// hardships returns all hardships, in the order of their bits.
func hardships() []hardship {
	return []hardship{
		latency, clientErrors, serverErrors, throttling, resets, slow, redirects,
		huge, robots, spellings, types, deep, dead, gzipped,
		failingRobots, hugeRobots, movedRobots, malformedRobots, robotsTags, sitemaps, largeSitemaps,
		calendar, sessions, tracking, facets, repeatedPaths, longURLs,
		charsets, codings, bombs, endless, headers, nesting, oddLinks, addresses, oddAnswers, oddMarkup, feeds, numbered,
	}
}

// ParseHardships parses a comma-separated list of names. A minus sign removes a name:
// "all,-dead". Four names mean sets: "none", "all" (the hardships of generated pages),
// "corners", and "everything" ("all" and "corners" together). odd-answers, odd-markup,
// feeds and numbered are in no set.
func ParseHardships(list string) (Hardships, error) {
	set := None
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		bare, remove := strings.CutPrefix(name, "-")
		bits, known := hardshipNamed(bare)
		switch {
		case !known:
			return None, fmt.Errorf("hardship %q is unknown; there are none, all, corners, everything, %s", name, strings.Join((All|hasCorner).names(), ", "))
		case remove:
			set &^= bits
		default:
			set |= bits
		}
	}
	return set, nil
}

// sets are the sets of hardships that have a name, by name.
var sets = map[string]Hardships{"": None, "none": None, "all": All, "corners": Corners, "everything": Everything}

func hardshipNamed(name string) (bits Hardships, known bool) {
	if bits, known = sets[name]; known {
		return bits, true
	}
	for _, h := range hardships() {
		if h.name == name {
			return h.bit, true
		}
	}
	return None, false
}

// String returns the list that ParseHardships reads.
func (s Hardships) String() string {
	for name, set := range sets {
		if set == s && name != "" {
			return name
		}
	}
	return strings.Join(s.names(), ",")
}

func (s Hardships) names() (names []string) {
	for _, h := range hardships() {
		if s&h.bit != 0 {
			names = append(names, h.name)
		}
	}
	return names
}

// DescribeHardships calls the function visit with each hardship's name and a line about
// it.
func DescribeHardships(visit func(name, doc string)) {
	for _, h := range hardships() {
		visit(h.name, h.doc)
	}
}

func (w *Web) has(h Hardships) bool { return w.cfg.Hardships&h != 0 }

// fates combines the hardships of a web.
type fates struct {
	leaves     [1024]*fate // nil means plain
	slots      []slot
	decorators []func(w *Web, p page, answer *answer)
}

// fatesOf returns the fates of leaves alone.
func fatesOf(leaves []leaf) (f fates) {
	next := 0
	for _, l := range leaves {
		for range l.share {
			f.leaves[next] = l.fate
			next++
		}
	}
	return f
}

func newFates(set Hardships) (f fates) {
	next := 0
	for _, h := range hardships() {
		if set&h.bit == 0 {
			continue
		}
		for _, l := range h.leaves {
			for range l.share {
				f.leaves[next] = l.fate
				next++
			}
		}
		f.slots = slices.Concat(f.slots, h.slots)
		if h.decorate != nil {
			f.decorators = append(f.decorators, h.decorate)
		}
	}
	return f
}

// slotOf returns the number of p's slot on its host. isSlot reports whether p has a slot.
// At most one page in eight has a slot, so a small host has only a random subset of the
// slots.
func (w *Web) slotOf(p page) (number int, isSlot bool) {
	slots, pages := len(w.fates.slots), w.shape.size(p.host)-1 // a root page never has a slot
	if slots == 0 || p.index == 0 {
		return 0, false
	}
	stride := max(1, pages/slots)
	drawn := w.draw(forSlots, page{p.host, 0})
	offset, turn := int(drawn>>32)%pages, int(drawn&0xffff)
	distance := (p.index - 1 + pages - offset) % pages
	number = distance / stride
	if distance%stride != 0 || number >= min(slots, (pages+7)/8) {
		return 0, false
	}
	return (number + turn) % slots, true
}

// fateOf returns the fate of p. A correct crawl requests a page up to four times. If p has
// child pages, one of these requests succeeds, so that the crawl finds the children. If p is
// a root page, the first request succeeds.
func (w *Web) fateOf(p page) *fate {
	if w.isMix() {
		return w.mixFateOf(p)
	}
	if p.index == 0 {
		return plain
	}
	inner := w.shape.inner(p)
	if number, isSlot := w.slotOf(p); isSlot {
		f := w.fates.slots[number](w, p.host)
		if f != nil && inner && (!f.hasLinks() || f.truncated) {
			f = f.inner
		}
		return cmp.Or(f, plain)
	}
	if inner {
		return plain
	}
	f := w.fates.leaves[w.draw(forFate, p)%uint64(len(w.fates.leaves))]
	if f == nil || f == fateRobots && !hasRules(p.host) {
		return plain
	}
	return f
}
