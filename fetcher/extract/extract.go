// Package extract finds the outlinks of an HTML body.
//
// It owns the reading of one body: its charset, title, base, robots meta tags
// and links. It fetches nothing, and decides nothing about scope or about
// obeying what a page asks for (package fetcher does). A header that says the
// same as a meta tag, X-Robots-Tag or Link, is its caller's business.
package extract

import (
	"bytes"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// DefaultMaxLinks is the number of references that are taken from one page
// unless Options say otherwise.
const DefaultMaxLinks = 100_000

// Options say what to take from a page.
type Options struct {
	Canon     *canon.Canonicalizer // required
	Assets    bool                 // also links of kinds that are assets, see Kind.Asset
	FastLinks bool                 // read tokens, build no document: Page.Document parses when asked
	MaxLinks  int                  // distinct references to take; 0 means DefaultMaxLinks

	// OnRefused is told each reference that is no link, and why, unless it is
	// nil. Those beyond MaxLinks it is not told.
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
	Title     string    // white space collapsed, at most MaxTitleBytes
	Charset   string    // what the body was read as, by its name in the Encoding standard
	Base      canon.URL // what references are relative to: the page's URL or its <base href>
	Canonical canon.URL // target of rel=canonical; zero for none
	Refresh   canon.URL // target of http-equiv=refresh, also one of Links; zero for none
	Nofollow  bool      // robots meta tag: follow no link of the page
	Noindex   bool      // robots meta tag
	Links     []Link    // distinct, in the order in which they first stand in the page

	// References that are no links, each distinct one counted once.
	Malformed int
	BadScheme int // mailto:, javascript:, data: …
	TooLong   int
	TooMany   int // beyond Options.MaxLinks, not canonicalised; repeats count

	// Deep: more than 512 elements are open at once. The parser refuses such a
	// body, its links were read from the tokens and Document is empty.
	Deep bool

	text     []byte     // the body in UTF-8
	root     *html.Node // nil until parsed
	document *goquery.Document
}

// HTML reads a body that was served with contentType, the header's value, from
// base. It keeps a reference to body. The only error is a missing Options.Canon
// or base: no body is wrong enough for one.
func HTML(body []byte, contentType string, base canon.URL, opt Options) (*Page, error) {
	if err := opt.check(base); err != nil {
		return nil, err
	}
	text, charset := decode(body, contentType)
	page := &Page{Charset: charset.name, text: text}
	found := newCollector(opt)
	if opt.FastLinks || !page.parse() {
		readTokens(text, found)
	} else {
		walk(page.root, found)
	}
	found.finish(page, base, charset.query)
	return page, nil
}

// Document returns the parsed body, the same at every call. It is empty for a
// Deep page.
func (p *Page) Document() *goquery.Document {
	if p.document == nil {
		if p.root == nil && (p.Deep || !p.parse()) {
			p.root = &html.Node{Type: html.DocumentNode}
		}
		p.document = goquery.NewDocumentFromNode(p.root)
	}
	return p.document
}

// parse builds the tree of the body; false: it is too deep.
//
// Scripting is off for the parser, as it is for us: what <noscript> holds are
// elements, not text.
func (p *Page) parse() bool {
	root, err := html.ParseWithOptions(bytes.NewReader(p.text), html.ParseOptionEnableScripting(false))
	p.Deep = err != nil // reading from memory does not fail
	if err == nil {
		p.root, p.text = root, nil
	}
	return err == nil
}
