// Package extract finds the outlinks of an HTML body.
//
// It owns the reading of one body: its charset, title, base, robots meta tags and
// links. It fetches nothing, and applies no rules: scope and robots meta tags are
// up to package fetcher, and so are the headers X-Robots-Tag and Link. Form
// actions, which people fill in, references in scripts and styles, and the text of
// a frame's srcdoc are not links.
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
	// MaxLinkBytes bounds the total length of the references of one page, each with
	// its base: with a long base, 1 MB can name 100,000 URLs of 8 KB.
	MaxLinkBytes = 32 << 20
)

// Bounds of a document: the bytes of its text, and the memory that it could take.
const (
	MaxDocumentBytes  = 4 << 20
	MaxDocumentMemory = documentFactor * MaxDocumentBytes

	// documentFactor is what a document counts for each byte of its text.
	documentFactor = 8
)

// Options select what is extracted from a page.
type Options struct {
	Canon        *canon.Canonicalizer // required
	Assets       bool                 // also links of kinds that are assets, see Kind.Asset
	FastLinks    bool                 // read tokens and build no document; Page.Document then parses on demand
	MaxLinks     int                  // distinct references to take; 0 means DefaultMaxLinks
	ProductToken string               // meta tags of this name count beside those of "robots"
	LinkTexts    bool                 // fill Page.LinkTexts

	// Room is called before a document is built, with the bytes that it may take, at most
	// MaxDocumentMemory. If it returns false, links are read from the tokens; Page.Document calls
	// it again. It is optional.
	Room func(bytes int64) bool
	// GiveUp is called every few KiB while a document is built, because some pages
	// are made to take minutes. If it returns true, links are read from the tokens,
	// in time proportional to the page. It is optional.
	GiveUp func() bool

	// Resolving is called after the references were found, before they become URLs. It is
	// optional.
	Resolving func()
	// OnRefused is called for each reference that is no link, with the reason, except those that
	// are TooMany. It is optional.
	OnRefused func(text string, err error)
}

// Link is an outlink: a canonical URL that a page names.
type Link struct {
	URL      canon.URL
	Kind     Kind // where it stands; of several places the most navigational
	Nofollow bool // rel=nofollow wherever it stands
}

// Page is the result of reading a body. It is not safe for concurrent use.
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

	// Lack is why there is no document, if one was asked for. Links were then read from the
	// tokens, and none is lost.
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
	NoRoom            // Options.Room returned false; it may not later
)

// String describes why there is no document.
func (l Lack) String() string {
	return [...]string{
		"there is one", "more than 512 elements are open at once", "it would have more than 4 MiB of text",
		"it could take too much memory", "it took too long to build", "there was no memory for it",
	}[l]
}

// HTML reads a body from base that was served with contentType, the value of the header. It keeps a
// reference to body. It returns an error only if Options.Canon or base is missing: any body is
// accepted.
func HTML(body []byte, contentType string, base canon.URL, opt Options) (*Page, error) {
	if err := opt.check(base); err != nil {
		return nil, err
	}
	text, charset := decode(body, contentType)
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

// Document returns the parsed body, the same at every call. It is empty for a page
// without a document; Lack then has the reason. If that is NoRoom, the next call
// may return another document.
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
// Scripting is off for the parser: <noscript> contains elements, not text.
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

// lack returns why there can be no document, as far as that is known before parsing.
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

// yielding reads a text in small parts and calls GiveUp before each.
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
