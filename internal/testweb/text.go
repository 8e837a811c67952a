package testweb

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// corpus is text that is generated once. All pages consist of pieces of it, so that
// making a page takes little more time than copying its bytes.
type corpus struct {
	paragraphs []string // elements of about 50 to 900 bytes
}

var (
	adjectives = strings.Fields("amber brave calm dusty eager faint gentle hollow idle jolly keen lonely mellow narrow odd pale quiet rusty silent tidy upper vivid warm young")
	nouns      = strings.Fields("anchor bridge canal dune engine forest garden harbour island junction kettle lantern meadow notebook orchard pebble quarry river station tower umbrella valley willow yard")
	verbs      = strings.Fields("carries follows finds guards hears joins keeps lifts meets needs opens passes reaches shows turns watches")
	fillers    = strings.Fields("the a one every some another this that its near below beyond without behind before after often slowly again almost never always however meanwhile")
)

func newCorpus(seed uint64) corpus {
	d := dice{mix(seed ^ 0x7465787473)}
	c := corpus{paragraphs: make([]string, 256)}
	for i := range c.paragraphs {
		c.paragraphs[i] = newParagraph(&d)
	}
	return c
}

func (c *corpus) appendParagraph(dst []byte, d *dice) []byte {
	return append(dst, c.paragraphs[d.intn(len(c.paragraphs))]...)
}

// newParagraph writes one to seven sentences as HTML.
func newParagraph(d *dice) string {
	var b strings.Builder
	b.WriteString("<p>")
	for range 1 + d.intn(7) {
		for word := range 8 + d.intn(16) {
			list := [...][]string{fillers, adjectives, nouns, verbs, fillers}[d.intn(5)]
			text := list[d.intn(len(list))]
			switch {
			case word == 0:
				text = strings.ToUpper(text[:1]) + text[1:]
			case d.oneIn(40):
				text = "<em>" + text + "</em>"
			case d.oneIn(60):
				text += " &amp; co."
			}
			if word > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(text)
		}
		b.WriteString(". ")
	}
	b.WriteString("</p>\n")
	return b.String()
}

func (w *Web) appendTitle(dst []byte, p page) []byte {
	d := w.roll(forText, p)
	dst = append(dst, adjectives[d.intn(len(adjectives))]...)
	dst = append(dst, ' ')
	dst = append(dst, nouns[d.intn(len(nouns))]...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(p.index), 10)
	dst = append(dst, " of "...)
	return appendHost(dst, p.host)
}

// appendPage appends p's HTML: a head, then the links between paragraphs, and further
// paragraphs until the page has the size that sizeOf returns.
func (w *Web) appendPage(dst []byte, p page) []byte {
	if w.isMix() {
		return w.appendMixPage(dst, p)
	}
	return w.appendSized(dst, p, w.sizeOf(p))
}

// appendSized appends p's HTML with the given size, or more if its links need more.
func (w *Web) appendSized(dst []byte, p page, size int) []byte {
	start := len(dst)
	from, d := w.baseOf(p), w.roll(forText, p)
	dst = append(dst, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"...)
	dst = w.appendTitle(dst, p)
	dst = append(dst, "</title>\n"...)
	if from.tag != "" {
		dst = append(append(dst, from.tag...), '\n')
	}
	dst = append(dst, "<link rel=\"stylesheet\" href=\"/static/site.css\">\n</head>\n<body>\n<h1>"...)
	dst = w.appendTitle(dst, p)
	dst = append(dst, "</h1>\n"...)
	if w.has(Spellings) {
		dst = append(dst, noLinks...)
	}
	isDeep := w.isDeep(p)
	if isDeep {
		dst = append(dst, strings.Repeat("<div>", deepElements)...)
	}
	var room [64]target
	links := w.links(room[:0], p)
	size, spelling := size-len(pageEnd), w.roll(forSpelling, p)
	for i, to := range links {
		dst = append(dst, "<p>See "...)
		dst = w.appendAnchor(dst, &spelling, from, to)
		dst = append(dst, " too.</p>\n"...)
		for share := size * (i + 1) / len(links); len(dst)-start < share; {
			dst = w.corpus.appendParagraph(dst, &d)
		}
	}
	if isDeep {
		dst = append(dst, strings.Repeat("</div>", deepElements)...)
	}
	for len(dst)-start < size {
		dst = w.corpus.appendParagraph(dst, &d)
	}
	return append(dst, pageEnd...)
}

// appendAnchor appends a link to t. It must draw the same numbers from d as
// LinksOf.
func (w *Web) appendAnchor(dst []byte, d *dice, from base, t target) []byte {
	if w.spelled(d) {
		open, name := "<a ", "href"
		if t.page.index%4 == 0 {
			open, name = "<A CLASS=x\n  ", "HREF"
		}
		dst = append(dst, open...)
		dst = w.spell(d, from, t).appendAttribute(dst, name)
	} else {
		dst = append(dst, `<a href="`...)
		var url [128]byte
		dst = appendEscaped(dst, w.appendURL(url[:0], t))
		dst = append(dst, '"')
	}
	dst = append(dst, '>')
	dst = append(dst, adjectives[t.page.index%len(adjectives)]...)
	dst = append(dst, ' ')
	dst = append(dst, nouns[t.page.host%len(nouns)]...)
	return append(dst, "</a>"...)
}

// appendEscaped appends a URL, escaped for HTML.
func appendEscaped(dst, url []byte) []byte {
	for {
		i := bytes.IndexByte(url, '&')
		if i < 0 {
			return append(dst, url...)
		}
		dst = append(append(dst, url[:i]...), "&amp;"...)
		url = url[i+1:]
	}
}

// sizeOf returns the intended size of p's HTML. Sizes have a log-normal
// distribution, as on the web, with the mean Config.MeanBytes.
func (w *Web) sizeOf(p page) int {
	d := w.roll(forSize, p)
	if w.isMix() {
		return int(min(mixBytes*math.Exp(mixBytesSpread*d.gauss()), float64(w.cfg.MaxBodyBytes)/2))
	}
	const sigma = 0.8
	size := float64(w.cfg.MeanBytes) * math.Exp(sigma*d.normal()-sigma*sigma/2)
	return int(min(size, float64(w.cfg.MaxBodyBytes)/2))
}
