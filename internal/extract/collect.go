package extract

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bloomfrontier/crawler/internal/robots"
)

// MaxTitleBytes is the maximum length of a title; a longer one is cut.
const MaxTitleBytes = 1 << 10

// reference is a link as it is written in a page, without its fragment.
type reference struct {
	text     string
	kind     Kind
	nofollow bool
}

// collector collects references from elements. It makes URLs of them at the end, because
// a <base> may come after links to which it applies.
type collector struct {
	opt        Options
	references []reference
	index      map[string]int32 // index in references, by the text of the reference
	tooMany    int
	memory     meter
	texts      []LinkText // of references, index for index; only with Options.LinkTexts
	open       int32      // index of the reference of the <a> that is open; -1 means none
	openText   []byte     // the text of that <a> so far

	title           string
	hasTitle        bool
	base, canonical string
	refresh         string // of the first refresh
	hasBase         bool
	nofollow        bool // a robots meta tag asks to follow no link
	metas           []Meta

	shown    textSum
	charset  string // the charset that the first meta tag with a charset names, if any
	place    place  // where in the page the elements are
	inShadow bool   // they are in a shadow tree
}

func newCollector(opt Options) *collector {
	opt.MaxLinks = cmp.Or(opt.MaxLinks, DefaultMaxLinks)
	return &collector{opt: opt, memory: meter{hold: opt.Hold}, index: make(map[string]int32, 64), open: -1}
}

// reads reports whether the method element handles tags of this name.
func (c *collector) reads(tag atom.Atom) bool {
	switch tag {
	case atom.A, atom.Area, atom.Base, atom.Frame, atom.Iframe, atom.Meta, atom.Link:
		return true
	case atom.Img, atom.Image, atom.Input, atom.Script, atom.Source, atom.Audio, atom.Video,
		atom.Track, atom.Embed, atom.Object, atom.Body, atom.Table, atom.Td, atom.Th:
		return c.opt.Assets
	}
	return false
}

// element handles a start tag of HTML. In a shadow tree only links count.
func (c *collector) element(tag atom.Atom, attrs []html.Attribute) {
	switch tag {
	case atom.A:
		c.anchor(attrs)
	case atom.Area:
		c.addRel(Area, attrs)
	case atom.Iframe:
		c.addValue(Frame, attrs, "src")
	case atom.Frame:
		if c.place == inFrames {
			c.addValue(Frame, attrs, "src")
		}
	case atom.Base:
		if href, has := value(attrs, "href"); has && !c.hasBase && !c.inShadow {
			c.base, c.hasBase = href, true
		}
	case atom.Meta:
		if !c.inShadow {
			c.meta(attrs)
		}
	case atom.Link:
		c.link(attrs)
	default:
		if c.opt.Assets {
			c.asset(tag, attrs)
		}
	}
}

// asset adds the references of embedded files.
func (c *collector) asset(tag atom.Atom, attrs []html.Attribute) {
	c.late(tag, attrs)
	switch tag {
	case atom.Img, atom.Image: // the parser turns an <image> into an <img>
		c.addValue(Image, attrs, "src")
		c.addSrcset(attrs, "srcset")
	case atom.Input:
		if kind, _ := value(attrs, "type"); strings.EqualFold(kind, "image") {
			c.addValue(Image, attrs, "src")
		}
	case atom.Script:
		c.addValue(Script, attrs, "src")
	case atom.Source:
		c.addValue(Media, attrs, "src")
		c.addSrcset(attrs, "srcset")
	case atom.Video:
		c.addValue(Media, attrs, "src")
		c.addValue(Image, attrs, "poster")
	case atom.Audio, atom.Track:
		c.addValue(Media, attrs, "src")
	case atom.Embed:
		c.addValue(Object, attrs, "src")
	case atom.Object:
		c.addValue(Object, attrs, "data")
	case atom.Body, atom.Table, atom.Td, atom.Th:
		c.addValue(Image, attrs, "background")
	}
}

// late adds the references that scripts copy to src, srcset and poster when a file is about to be
// seen.
func (c *collector) late(tag atom.Atom, attrs []html.Attribute) {
	kind := Media
	switch tag {
	case atom.Img, atom.Image:
		kind = Image
	case atom.Source, atom.Video, atom.Audio:
	default:
		return
	}
	for i := range attrs {
		if !strings.ContainsAny(attrs[i].Val, "./") { // such as data-lazy=true
			continue
		}
		switch lateAttributes[attrs[i].Key] {
		case "src":
			c.add(kind, attrs[i].Val, false)
		case "srcset":
			c.addSrcset(attrs, attrs[i].Key)
		case "poster":
			c.add(Image, attrs[i].Val, false)
		}
	}
}

// lateAttributes are attributes that scripts for late loading use, and the attribute that each stands
// for. TestLateFiles names the scripts.
var lateAttributes = map[string]string{
	"data-src": "src", "data-lazy-src": "src", "data-original": "src", "data-src-retina": "src", "data-echo": "src",
	"data-cfsrc": "src", "data-lazy": "src", "data-lazyload": "src", "data-flickity-lazyload": "src", "data-flickity-lazyload-src": "src",
	"data-srcset": "srcset", "data-lazy-srcset": "srcset", "data-flickity-lazyload-srcset": "srcset", "data-poster": "poster",
}

// drawing handles a start tag of SVG.
func (c *collector) drawing(tag atom.Atom, attrs []html.Attribute) {
	if _, has := value(attrs, "href"); !has {
		for i := range attrs {
			if attrs[i].Key == "xlink:href" {
				attrs[i].Key = "href"
			}
		}
	}
	switch tag {
	case atom.A:
		c.anchor(attrs)
	case atom.Image:
		c.addValue(Image, attrs, "href")
	case atom.Script:
		c.addValue(Script, attrs, "href")
	}
}

// anchor handles an <a>.
func (c *collector) anchor(attrs []html.Attribute) {
	c.closeAnchor() // the parser ends an anchor where another begins
	if i := c.addRel(Anchor, attrs); c.opt.LinkTexts {
		c.open, c.openText = i, c.openText[:0]
	}
}

// link handles a <link>, whose kind depends on its rel.
func (c *collector) link(attrs []html.Attribute) {
	if c.opt.Assets {
		c.addSrcset(attrs, "imagesrcset")
	}
	href, has := value(attrs, "href")
	rel, _ := value(attrs, "rel")
	if !has {
		return
	}
	if c.canonical == "" && c.place == inHead && !c.inShadow && hasWord(rel, "canonical") {
		c.canonical = href
	}
	media, _ := value(attrs, "type")
	kind, ok := relKind(rel, media, c.opt.Feeds)
	if ok && (c.opt.Assets || !kind.Asset()) {
		c.addRelText(c.add(kind, href, hasWord(rel, "nofollow")), rel)
	}
}

// relKind returns the kind of a <link> with this rel and this media type. ok is false if
// there is nothing to follow. If feeds is true, links to feeds are followed like those to pages.
func relKind(rel, media string, feeds bool) (kind Kind, ok bool) {
	kind = Resource
	for word := range words(rel) {
		switch strings.ToLower(word) {
		case "stylesheet":
			return Stylesheet, true
		case "dns-prefetch", "preconnect":
			return 0, false
		case "next", "prev", "previous", "first", "last", "start", "up", "contents", "index", "toc",
			"chapter", "section", "help", "author", "license", "glossary", "bookmark":
			kind = min(kind, Related)
		case "alternate": // another language, or a feed
			if isPage(media) || feeds && isFeed(media) {
				kind = min(kind, Related)
			}
		case "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "image_src":
			kind = min(kind, Image)
		case "modulepreload":
			kind = min(kind, Script)
		}
	}
	return kind, kind != Resource || !hasWord(rel, "canonical") // the target of canonical is recorded, not followed
}

// isPage reports whether a link with this media type leads to a page. An empty media type
// counts as that of a page.
func isPage(media string) bool {
	switch essence(media) {
	case "", "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

// isFeed reports whether a link with this media type leads to a feed. Links with the type of RDF
// lead to other data nearly always.
func isFeed(media string) bool {
	switch essence(media) {
	case "application/rss+xml", "application/atom+xml":
		return true
	}
	return false
}

// meta handles the robots and refresh tags, and those that name the charset.
func (c *collector) meta(attrs []html.Attribute) {
	if c.charset == "" {
		c.charset = metaCharset(func(name string) (string, bool) { return value(attrs, name) })
	}
	content, has := value(attrs, "content")
	if !has {
		return
	}
	name, _ := value(attrs, "name")
	c.nofollow = c.nofollow || robots.MetaNofollow(name, content, c.opt.ProductToken)
	if name != "" && c.opt.WantMeta != nil && len(c.metas) < MaxMetas && c.opt.WantMeta(name, content) {
		c.metas = append(c.metas, Meta{collapsed(name, MaxTitleBytes), collapsed(content, MaxTitleBytes)})
	}
	if equiv, _ := value(attrs, "http-equiv"); strings.EqualFold(strings.TrimSpace(equiv), "refresh") {
		if target := refreshTarget(content); target != "" {
			c.addRefresh(target)
		}
	}
}

// addRefresh adds the target of a refresh.
func (c *collector) addRefresh(target string) {
	c.refresh = cmp.Or(c.refresh, target)
	c.add(Refresh, target, false)
}

func (c *collector) setTitle(text string) {
	c.hasTitle = true
	c.title = collapsed(text, MaxTitleBytes)
}

// collapsed replaces each run of white space in text by one space, and cuts the result to
// at most maxBytes.
func collapsed(text string, maxBytes int) string {
	if len(text) > 4*maxBytes { // saves work: the text after that is usually not needed
		text = text[:4*maxBytes]
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > maxBytes {
		cut := maxBytes
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return strings.Clone(text)
}

// addRel adds the reference of an <a> or <area> and returns its index, or -1 if there is
// none.
func (c *collector) addRel(kind Kind, attrs []html.Attribute) int32 {
	href, has := value(attrs, "href")
	if !has {
		return -1
	}
	rel, _ := value(attrs, "rel")
	i := c.add(kind, href, rel != "" && hasWord(rel, "nofollow"))
	c.addRelText(i, rel)
	return i
}

func (c *collector) addValue(kind Kind, attrs []html.Attribute, name string) {
	if text, has := value(attrs, name); has {
		c.add(kind, text, false)
	}
}

func (c *collector) addSrcset(attrs []html.Attribute, name string) {
	if set, has := value(attrs, name); has {
		for candidate := range candidates(set) {
			c.add(Image, candidate, false)
		}
	}
}

// add adds one reference and returns its index, or -1 if there are too many. It first
// removes the fragment, which begins at the first '#'.
func (c *collector) add(kind Kind, text string, nofollow bool) int32 {
	text, _, _ = strings.Cut(text, "#")
	if i, known := c.index[text]; known {
		r := &c.references[i]
		r.kind, r.nofollow = min(r.kind, kind), r.nofollow && nofollow
		return i
	}
	if len(c.references) == c.opt.MaxLinks || !c.memory.use(referenceBytes+int64(len(text))) {
		c.tooMany++
		return -1
	}
	i := int32(len(c.references))
	c.index[text] = i
	c.references = append(c.references, reference{text, kind, nofollow})
	if c.opt.LinkTexts {
		c.texts = append(c.texts, LinkText{})
	}
	return i
}

// value returns the value of the first attribute with this name.
func value(attrs []html.Attribute, name string) (text string, has bool) {
	for i := range attrs {
		if attrs[i].Key == name {
			return attrs[i].Val, true
		}
	}
	return "", false
}
