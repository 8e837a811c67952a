package sitemap

import (
	"bytes"
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
	show   func(url string, kind Kind) error
	begun  bool // the first element was read

	open  []string // names of open elements, without prefix
	url   []byte   // of the entry that is being read
	inURL bool
	kind  Kind

	inGUID bool   // the URL that is being read is the guid of an RSS item
	guid   string // of the RSS item that is being read, if it is a URL
	linked bool   // that item has a link
}

func newElements(text io.Reader, show func(string, Kind) error) *elements {
	x := &elements{tokens: html.NewTokenizer(text), show: show}
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
	tag, _ := x.tokens.TagName()
	name := local(tag)
	if !x.begun && !isFirst(name) {
		return ErrFormat
	}
	x.begun = true
	parent := x.enter(name)
	if name == "item" {
		x.guid, x.linked = "", false
	}
	if href, is := x.reference(parent, name); is {
		if err := x.show(href, Page); err != nil {
			return err
		}
	}
	if closed {
		return nil
	}
	x.kind, x.inURL = kindOf(parent, name)
	x.inGUID = x.inURL && name == "guid"
	if len(x.open) < maxDepth {
		x.open = append(x.open, name)
	}
	return nil
}

// enter returns the parent of a new element. An entry closes all elements that the previous
// entry left open.
func (x *elements) enter(name string) (parent string) {
	switch name {
	case "url", "sitemap", "item", "entry":
		if i := slices.Index(x.open, name); i >= 0 {
			x.open = x.open[:i]
		}
	}
	if len(x.open) > 0 {
		parent = x.open[len(x.open)-1]
	}
	return parent
}

// end handles an end tag. It ends the innermost open element with this name and all
// elements within it. If no open element has this name, the tag is ignored.
func (x *elements) end() error {
	err := x.flush()
	tag, _ := x.tokens.TagName()
	name := local(tag)
	if name == "item" && err == nil && !x.linked && isURL(x.guid) {
		x.linked = true
		err = x.show(x.guid, Page)
	}
	for i := len(x.open) - 1; i >= 0; i-- {
		if x.open[i] == name {
			x.open = x.open[:i]
			break
		}
	}
	return err
}

// reference returns the URL in an attribute of an element: the link of an entry of a feed, or a
// version of a page in another language. The caller must have read the name of the tag.
func (x *elements) reference(parent, name string) (href string, is bool) {
	if name != "link" && name != "guid" {
		return "", false
	}
	rel := "alternate"
	for {
		key, value, more := x.tokens.TagAttr()
		switch string(key) {
		case "href":
			href = trim(string(value))
		case "rel":
			rel = strings.ToLower(trim(string(value)))
		case "ispermalink":
			if name == "guid" && strings.EqualFold(trim(string(value)), "false") {
				x.linked = true // so that the guid is not used
			}
		}
		if !more {
			break
		}
	}
	switch parent {
	case "item", "entry", "url":
	default:
		return "", false
	}
	is = name == "link" && href != "" && (rel == "alternate" || rel == "http://www.iana.org/assignments/relation/alternate")
	return href, is
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
	x.linked = x.linked || url != ""
	return x.show(url, x.kind)
}

// isFirst reports whether a sitemap can begin with an element of this name. A file may lack
// its root element, so the first element may also be an entry.
func isFirst(name string) bool {
	switch name {
	case "urlset", "url", "sitemapindex", "sitemap":
		return true
	case "rss", "rdf", "feed":
		return true
	}
	return false
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
