// Package extract finds the outlinks of an HTML body.
//
// It reads one body: its charset, title, base, robots meta tags and links. It reads them from
// the tokens of the body; only Page.Document builds a tree. It fetches nothing and applies no
// rules. Package fetcher applies the scope and the robots meta tags, and reads the header
// X-Robots-Tag. The actions of forms, references in scripts and styles, and the text of a
// frame's srcdoc do not count as links.
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
	// MaxLinkBytes limits the total length of the references of one page. The length of the
	// base URL is added for each reference. Without this limit, a page of 1 MB with a long
	// base could have 100,000 URLs of 8 KB each.
	MaxLinkBytes = 32 << 20
)

// Limits of a document: the bytes of its text, and the memory that it could take.
const (
	MaxDocumentBytes  = 4 << 20
	MaxDocumentMemory = documentFactor * MaxDocumentBytes

	// documentFactor is the assumed memory of a document for each byte of its text.
	documentFactor = 8
)

// Options select what is extracted from a page.
type Options struct {
	Canon        *canon.Canonicalizer // required
	Assets       bool                 // also extract links of the kinds that are assets: see Kind.Asset
	Feeds        bool                 // a <link rel=alternate> to a feed counts as one to a page
	MaxLinks     int                  // maximum number of distinct references; 0 means DefaultMaxLinks
	ProductToken string               // meta tags with this name count like those with the name "robots"
	// WantMeta reports whether a meta tag is kept in Page.Metas. It is optional.
	WantMeta  func(name, content string) bool
	LinkTexts bool // fill Page.LinkTexts

	// Room is called before Page.Document builds a document, with the number of bytes that
	// the document may take, at most MaxDocumentMemory. If it returns false, no document is
	// built. The next call of Page.Document calls Room again. Room is optional.
	Room func(bytes int64) bool
	// GiveUp is called every few KiB while a document is built, because a hostile page
	// can take minutes. If it returns true, the page has no document. GiveUp is optional.
	GiveUp func() bool

	// Hold reserves memory before it is used, with a negative number of bytes it gives memory
	// back. It may wait. If it returns false, the page cannot have so much memory: further links
	// and a text without memory count in Page.TooMany. Hold is optional.
	Hold func(more int64) bool
	// OnPiece gets links in pieces if all links of a page would take more than PieceBytes of
	// memory. Each time, Page.Links and Page.LinkTexts are the next piece, which is valid only
	// during the call. At the end they are the last piece. If OnPiece returns false, HTML stops.
	// A URL that is in several pieces is passed several times. OnPiece is optional.
	OnPiece func(page *Page) bool

	// Resolving is called after the references were found, before they become URLs. It is
	// optional.
	Resolving func()
	// OnRefused is called once for each distinct reference that is not a link (mailto:,
	// javascript:, data: …), with the reason, an error of package canon. It is not called
	// for references beyond the limits (Page.TooMany). It is optional.
	OnRefused func(text string, err error)
}

// Link is an outlink: a canonical URL to which a page refers.
type Link struct {
	URL      canon.URL
	Kind     Kind // where the link is; if it is in several places, the kind that comes first in the order of kinds
	Nofollow bool // the link has rel=nofollow in all its places
}

// MaxMetas is the number of meta tags that are kept of a page.
const MaxMetas = 16

// Meta is a meta tag, with white space collapsed.
type Meta struct {
	Name    string
	Content string // at most MaxTitleBytes
}

// Page is the result of reading a body. It is not safe for concurrent use.
type Page struct {
	Title     string     // white space collapsed, at most MaxTitleBytes
	Charset   string     // the charset in which the body was read, by its name in the Encoding standard
	Base      canon.URL  // references are relative to it: the page's URL or its <base href>
	Canonical canon.URL  // target of rel=canonical; zero for none
	Refresh   string     // target of the first refresh, as it is written; empty for none
	Nofollow  bool       // a robots meta tag asks to follow no link of the page
	Links     []Link     // distinct, in the order of their first places in the page
	LinkTexts []LinkText // with Options.LinkTexts: the texts of Links, index for index
	Metas     []Meta     // that Options.WantMeta wants, at most MaxMetas

	// TextDigest is the SHA-256 of the text that the page shows, in UTF-8 and without white space. It is nil if the page
	// shows no text, or if there was no memory for all of it. Pages that differ only in attributes, scripts, styles, comments
	// or titles have the same TextDigest.
	TextDigest []byte

	// MayNeedJS reports that scripts may build the content of the page: the page has a script, hardly
	// any text or a request for JavaScript, and no link of <a>, <area> or a frame.
	MayNeedJS bool

	// TooMany counts references beyond Options.MaxLinks or MaxLinkBytes, repeated ones again. A
	// text that ends because it got no memory counts as one.
	TooMany int

	// Lack is the reason why Document returned an empty document. The links do not need a
	// document, so none is lost.
	Lack Lack

	opt      Options
	text     []byte     // the body in UTF-8; XHTML as HTML
	textHeld int64      // memory that is reserved for text
	textCut  bool       // the text ends early, because there was no memory for more
	root     *html.Node // nil until parsed
	document *goquery.Document
}

// Lack is the reason why a page has no document.
type Lack uint8

const (
	LacksNothing Lack = iota
	TooDeep           // more than 512 elements are open at once, so the parser refuses the page
	TooLarge          // the text is longer than MaxDocumentBytes
	TooHeavy          // the document may become larger than MaxDocumentMemory
	TooSlow           // Options.GiveUp returned true
	NoRoom            // Options.Room returned false; it may return true later
)

// String describes why there is no document.
func (l Lack) String() string {
	return [...]string{
		"nothing is missing", "more than 512 elements are open at once", "it would have more than 4 MiB of text",
		"it could take too much memory", "the page takes too long to read", "there was no memory for it",
	}[l]
}

// HTML reads a body that was served from the URL base. contentType is the value of its
// Content-Type header. The Page keeps a reference to body. HTML accepts any body.
func HTML(body []byte, contentType string, base canon.URL, opt Options) *Page {
	charset, certain := charsetOf(body, contentType)
	page := &Page{opt: opt}
	found, query := page.readBody(body, charset, isXML(contentType))
	if better := found.charset; !certain && better != "" && better != charset { // a browser also begins again
		found.memory.release()
		page.text, page.textCut = nil, false
		page.holdText(-page.textHeld)
		found, query = page.readBody(body, better, isXML(contentType))
	}
	page.MayNeedJS = !page.textCut && !found.hasLink() && mayNeedScript(page.text)
	if opt.Resolving != nil {
		opt.Resolving()
	}
	found.finish(page, base, query)
	return page
}

// Listed returns a page with the links of a list that was served from the URL base. The function
// read calls add for each. Their references are relative to base.
func Listed(base canon.URL, opt Options, read func(add func(kind Kind, ref string))) *Page {
	page := &Page{opt: opt}
	found := newCollector(opt)
	read(func(kind Kind, ref string) {
		if opt.Assets || !kind.Asset() {
			found.add(kind, ref, false)
		}
	})
	if opt.Resolving != nil {
		opt.Resolving()
	}
	found.finish(page, base, nil)
	return page
}

// readBody reads the body in a charset. It returns what was found, and the encoder of queries.
func (p *Page) readBody(body []byte, charset string, xml bool) (*collector, *queryEncoder) {
	text, used := decode(body, charset, p.holdText)
	if xml {
		decoded := p.textHeld
		text = htmlOf(text, p.holdText)
		p.holdText(-decoded)
	}
	p.Charset, p.text = used.name, text
	found := newCollector(p.opt)
	readTokens(text, found)
	return found, used.query
}

// holdText reserves memory for the text, or gives it back if more is negative.
func (p *Page) holdText(more int64) bool {
	if p.opt.Hold != nil && !p.opt.Hold(more) {
		p.textCut = true
		return false
	}
	p.textHeld += more
	return true
}

// Document returns the parsed body. Every call returns the same document. If the document
// cannot be built, it returns an empty one, and Lack has the reason. If the reason is NoRoom,
// a later call may return the parsed body.
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
// Scripting is off in the parser, so that <noscript> contains elements and not text.
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

// lack returns why there can be no document, if that is known before parsing.
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
