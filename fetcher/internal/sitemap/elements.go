package sitemap

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// maxDepth is the largest length of elements.open. Deeper elements are not added to it.
const maxDepth = 64

// elements reads the XML forms of a sitemap from their tokens.
type elements struct {
	tokens *html.Tokenizer
	show   func(Entry) error
	feed   bool // visit enclosures and further parts of a feed
	begun  bool // the first element was read

	open  []element
	bases []string // the values of xml:base of open elements
	url   []byte   // of the entry that is being read
	inURL bool
	kind  Kind

	modified   func(Modified) // see ReadModified
	loc        string         // of the entry of a sitemap that is being read
	inModified bool           // lastmod is being read, in the place of a URL

	inGUID bool   // the URL that is being read is the guid of an RSS item
	guid   string // of the RSS item that is being read, if it is a URL
	linked bool   // that item has a link
}

// element is an open element.
type element struct {
	name  string // without prefix
	bases int    // number of values in elements.bases that are not its own
}

func newElements(text io.Reader, feed bool, show func(Entry) error) *elements {
	x := &elements{tokens: html.NewTokenizer(text), feed: feed, show: show}
	x.tokens.SetMaxBuf(maxToken)
	x.tokens.AllowCDATA(true)
	return x
}

// read reads to the end of the file.
func (x *elements) read() error {
	for {
		token := x.tokens.Next()
		var err error
		switch token {
		case html.ErrorToken:
			return x.ended()
		case html.TextToken:
			x.text(x.tokens.Raw())
		case html.StartTagToken, html.SelfClosingTagToken:
			x.tokens.NextIsNotRawText() // <title> and <script> mean nothing here
			err = x.start(token == html.SelfClosingTagToken)
		case html.EndTagToken:
			err = x.end()
		}
		if err != nil {
			return err
		}
	}
}

// ended returns the error at the end of the tokens.
func (x *elements) ended() error {
	err := x.tokens.Err()
	switch {
	case errors.Is(err, html.ErrBufferExceeded):
		return ErrToken
	case !errors.Is(err, io.EOF):
		return err
	case !x.begun:
		return ErrFormat
	case len(x.open) > 0:
		return ErrCut // the current entry may be incomplete as well
	}
	return nil
}

// text adds text, or a CDATA section, to the current entry.
func (x *elements) text(raw []byte) {
	if !x.inURL || len(x.url) > maxURL {
		return
	}
	if section, is := bytes.CutPrefix(raw, []byte("<![CDATA[")); is {
		x.url = append(x.url, bytes.TrimSuffix(section, []byte("]]>"))...)
		return
	}
	x.url = appendUnescaped(x.url, raw)
}

// start handles a start tag.
func (x *elements) start(closed bool) error {
	if err := x.flush(); err != nil {
		return err
	}
	tag, hasAttributes := x.tokens.TagName()
	name := local(tag)
	if !x.begun && formOf(name) == None {
		return ErrFormat
	}
	x.begun = true
	var attrs attributes
	if hasAttributes {
		attrs = x.attributes()
	}
	if name == "item" {
		if err := x.endItem(); err != nil { // the last item may lack its end tag
			return err
		}
		x.linked = false
	}
	parent := x.enter(name)
	outside := len(x.bases)
	if attrs.hasBase && len(x.open) < maxDepth {
		x.bases = append(x.bases, attrs.base)
	}
	if name == "guid" && attrs.noPermalink {
		x.linked = true // so that the guid is not used
	}
	if url, kind, is := reference(parent, name, &attrs); is && (x.feed || kind == Page) {
		x.linked = x.linked || kind == Page
		if err := x.show(Entry{url, kind, x.bases}); err != nil {
			return err
		}
	}
	if closed {
		x.bases = x.bases[:outside]
		return nil
	}
	x.kind, x.inURL = kindOf(parent, name)
	if x.modified != nil && name == "lastmod" && (parent == "url" || parent == "sitemap") && x.loc != "" {
		x.inURL, x.inModified = true, true
	}
	x.inGUID = x.inURL && name == "guid"
	if len(x.open) < maxDepth {
		x.open = append(x.open, element{name, outside})
	}
	return nil
}

// endItem passes the guid of an RSS item that has no link to show.
func (x *elements) endItem() error {
	guid := x.guid
	x.guid = ""
	if x.linked || !isURL(guid) {
		return nil
	}
	x.linked = true
	return x.show(Entry{guid, Page, x.bases})
}

// leave closes the open element with this index, and all within it.
func (x *elements) leave(i int) {
	x.bases = x.bases[:x.open[i].bases]
	x.open = x.open[:i]
}

// enter returns the parent of a new element. An entry closes all elements that the previous
// entry left open.
func (x *elements) enter(name string) (parent string) {
	switch name {
	case "url", "sitemap", "item", "entry":
		x.loc = ""
		if i := slices.IndexFunc(x.open, func(e element) bool { return e.name == name }); i >= 0 {
			x.leave(i)
		}
	}
	if len(x.open) > 0 {
		parent = x.open[len(x.open)-1].name
	}
	return parent
}

// end handles an end tag. It ends the innermost open element with this name and all
// elements within it. If no open element has this name, the tag is ignored.
func (x *elements) end() error {
	err := x.flush()
	tag, _ := x.tokens.TagName()
	name := local(tag)
	if name == "item" && err == nil {
		err = x.endItem()
	}
	for i := len(x.open) - 1; i >= 0; i-- {
		if x.open[i].name == name {
			x.leave(i)
			break
		}
	}
	return err
}

// attributes are the attributes of an element that matter here.
type attributes struct {
	href, rel, url, base string
	hasBase              bool
	noPermalink          bool // isPermaLink is false
}

// attributes reads the attributes of the present tag, whose name was read.
func (x *elements) attributes() (attrs attributes) {
	for more := true; more; {
		var key, value []byte
		key, value, more = x.tokens.TagAttr()
		switch string(key) {
		case "href":
			attrs.href = trim(string(value))
		case "rel":
			attrs.rel = strings.ToLower(trim(string(value)))
		case "url":
			attrs.url = trim(string(value))
		case "xml:base":
			attrs.base, attrs.hasBase = trim(string(value)), len(value) <= maxURL
		case "ispermalink":
			attrs.noPermalink = strings.EqualFold(trim(string(value)), "false")
		}
	}
	return attrs
}

// reference returns the URL in an attribute of an element: a link of an entry of a feed or of the
// feed itself, or a version of a page in another language. is is false if there is none.
func reference(parent, name string, attrs *attributes) (url string, kind Kind, is bool) {
	switch name {
	case "enclosure":
		return attrs.url, Enclosure, parent == "item" && attrs.url != ""
	case "link":
	default:
		return "", Page, false
	}
	rel := cmp.Or(strings.TrimPrefix(attrs.rel, "http://www.iana.org/assignments/relation/"), "alternate")
	switch parent {
	case "item", "entry", "url":
		switch rel {
		case "alternate":
			kind, is = Page, true
		case "enclosure":
			kind, is = Enclosure, true
		}
	case "feed", "channel":
		switch rel {
		case "next", "previous", "first", "last", "current", "prev-archive", "next-archive":
			kind, is = Part, true
		}
	}
	return attrs.href, kind, is && attrs.href != ""
}

// flush passes the URL of the current entry to show. It is called at each tag, because any
// tag ends the text of the URL.
func (x *elements) flush() error {
	if !x.inURL {
		return nil
	}
	url := trim(string(x.url))
	x.url, x.inURL = x.url[:0], false
	if x.inGUID {
		x.guid, x.inGUID = url, false
		return nil
	}
	if x.inModified {
		x.inModified = false
		if first, until, is := parseDate(url); is {
			x.modified(Modified{x.loc, x.bases, first, until})
		}
		return nil
	}
	x.linked = x.linked || url != ""
	if x.modified != nil {
		x.loc = url
	}
	return x.show(Entry{url, x.kind, x.bases})
}

// formOf returns the form of a file that begins with an element of this name. A sitemap may lack
// its root element, so the first element may also be an entry.
func formOf(name string) Form {
	switch name {
	case "urlset", "url", "sitemapindex", "sitemap":
		return Listing
	case "rss", "rdf", "feed":
		return Feed
	}
	return None
}

// kindOf returns the kind of the URL in the text of elements with this name and parent. isURL
// is false if the text of such elements is not a URL.
func kindOf(parent, name string) (kind Kind, isURL bool) {
	switch {
	case parent == "url" && name == "loc":
		return Page, true
	case parent == "sitemap" && name == "loc":
		return Sitemap, true
	case parent == "item" && (name == "link" || name == "guid"):
		return Page, true
	}
	return Page, false
}
