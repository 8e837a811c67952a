// Package extract finds the outlinks of an HTML body.
//
// It owns the reading of one body: its charset, title, base, robots meta tags
// and links. It fetches nothing, and decides nothing about scope or about
// obeying what a page asks for (package fetcher does). A header that says the
// same as a meta tag, X-Robots-Tag or Link, is its caller's business. No links
// to it are where a form is sent, which is for people to fill in, what scripts
// and styles name, and the text of a frame's srcdoc.
package extract

import (
	"errors"
	"io"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

const (
	// DefaultMaxLinks is the number of references that are taken from one page
	// unless Options say otherwise.
	DefaultMaxLinks = 100_000
	// MaxLinkBytes is how long the references of one page may be together, each
	// with its base: by a long base 1 MB can name 100,000 URLs of 8 KB.
	MaxLinkBytes = 32 << 20
)

// No document is built of more than MaxDocumentBytes of text, nor one that could
// take more than MaxDocumentMemory.
const (
	MaxDocumentBytes  = 4 << 20
	MaxDocumentMemory = documentFactor * MaxDocumentBytes

	// documentFactor is what a document counts for each byte of its text.
	documentFactor = 8
)

// Options say what to take from a page.
type Options struct {
	Canon        *canon.Canonicalizer // required
	Assets       bool                 // also links of kinds that are assets, see Kind.Asset
	FastLinks    bool                 // read tokens, build no document: Page.Document parses when asked
	MaxLinks     int                  // distinct references to take; 0 means DefaultMaxLinks
	ProductToken string               // meta tags of this name count beside those of "robots"
	LinkTexts    bool                 // fill Page.LinkTexts

	// Room is asked before a document is built that takes up to so many bytes,
	// MaxDocumentMemory at most. If there is none, links are read from the
	// tokens; Page.Document asks again. nil: there is.
	Room func(bytes int64) bool
	// GiveUp is asked every few KiB while a document is built. Some pages are
	// made to take minutes; when it returns true they are read from the tokens,
	// which takes time in proportion to the page. nil: never.
	GiveUp func() bool

	// Resolving is called when the references were found, before they become
	// URLs; nil: nobody wants to know.
	Resolving func()
	// OnRefused is told each reference that is no link, and why, unless it is
	// nil. Those that are TooMany it is not told.
	OnRefused func(text string, err error)
}

// Link is an outlink: a canonical URL that a page names.
type Link struct {
	URL      canon.URL
	Kind     Kind // where it stands; of several places the most navigational
	Nofollow bool // rel=nofollow wherever it stands
}

// Page is what a body says. It is not safe for concurrent use.
type Page struct {
	Title     string     // white space collapsed, at most MaxTitleBytes
	Charset   string     // what the body was read as, by its name in the Encoding standard
	Base      canon.URL  // what references are relative to: the page's URL or its <base href>
	Canonical canon.URL  // target of rel=canonical; zero for none
	Refresh   canon.URL  // target of http-equiv=refresh, also one of Links; zero for none
	Nofollow  bool       // robots meta tag: follow no link of the page
	Noindex   bool       // robots meta tag
	Links     []Link     // distinct, in the order in which they first stand in the page
	LinkTexts []LinkText // with Options.LinkTexts: what the page says of Links, index for index

	// References that are no links, each distinct one counted once.
	Malformed int
	BadScheme int // mailto:, javascript:, data: …
	TooLong   int
	TooMany   int // beyond Options.MaxLinks or MaxLinkBytes, not canonicalised; repeats count

	// Lack is why there is no document, as far as one was asked for: links were
	// read from the tokens, none is lost.
	Lack Lack

	opt      Options
	text     []byte     // the body in UTF-8
	root     *html.Node // nil until parsed
	document *goquery.Document
}

// Lack is why a page has no document.
type Lack uint8

const (
	LacksNothing Lack = iota
	TooDeep           // more than 512 elements are open at once: the parser refuses it
	TooLarge          // more than MaxDocumentBytes
	TooHeavy          // may become larger than MaxDocumentMemory
	TooSlow           // Options.GiveUp
	NoRoom            // Options.Room; there may be some later
)

// String says why there is no document.
func (l Lack) String() string {
	return [...]string{
		"there is one", "more than 512 elements are open at once", "it would have more than 4 MiB of text",
		"it could take too much memory", "it took too long to build", "there was no memory for it",
	}[l]
}

// HTML reads a body that was served with contentType, the header's value, from
// base. It keeps a reference to body. The only error is a missing Options.Canon
// or base: no body is wrong enough for one.
func HTML(body []byte, contentType string, base canon.URL, opt Options) (*Page, error) {
	if err := opt.check(base); err != nil {
		return nil, err
	}
	text, charset := decode(body, contentType, opt.Canon.Version())
	page := &Page{Charset: charset.name, text: text, opt: opt}
	found := newCollector(opt)
	if opt.FastLinks || !page.parse() {
		readTokens(text, found)
	} else {
		walk(page.root, found)
	}
	if opt.Resolving != nil {
		opt.Resolving()
	}
	found.finish(page, base, charset.query)
	return page, nil
}

// Document returns the parsed body, the same at every call. It is empty for a
// page that has none: then Lack says why. Of a page that had NoRoom the next
// call may return another.
func (p *Page) Document() *goquery.Document {
	if p.document != nil {
		return p.document
	}
	if p.root == nil && (p.Lack != LacksNothing && p.Lack != NoRoom || !p.parse()) {
		return goquery.NewDocumentFromNode(&html.Node{Type: html.DocumentNode})
	}
	p.document = goquery.NewDocumentFromNode(p.root)
	return p.document
}

// parse builds the tree of the body, or sets Lack.
//
// Scripting is off for the parser, as it is for us: what <noscript> holds are
// elements, not text.
func (p *Page) parse() (parsed bool) {
	p.Lack = p.lack()
	if p.Lack != LacksNothing {
		return false
	}
	text := &yielding{text: p.text, giveUp: p.opt.GiveUp}
	root, err := html.ParseWithOptions(text, html.ParseOptionEnableScripting(false))
	switch {
	case errors.Is(err, errGivenUp):
		p.Lack = TooSlow
	case err != nil: // reading from memory does not fail
		p.Lack = TooDeep
	default:
		p.root, p.text = root, nil
	}
	return err == nil
}

// lack says, as far as it can be known before, why there can be no document.
func (p *Page) lack() Lack {
	if len(p.text) > MaxDocumentBytes {
		return TooLarge
	}
	bytes := weigh(p.text)
	switch {
	case bytes > MaxDocumentMemory:
		return TooHeavy
	case p.opt.Room != nil && !p.opt.Room(bytes):
		return NoRoom
	}
	return LacksNothing
}

// yielding reads a text in small parts and asks before each whether to go on.
type yielding struct {
	text   []byte
	giveUp func() bool
}

var errGivenUp = errors.New("extract: given up")

func (y *yielding) Read(p []byte) (int, error) {
	if len(y.text) == 0 {
		return 0, io.EOF
	}
	if y.giveUp != nil && y.giveUp() {
		return 0, errGivenUp
	}
	n := copy(p[:min(len(p), 4<<10)], y.text)
	y.text = y.text[n:]
	return n, nil
}
