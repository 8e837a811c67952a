// Package maintext finds what a page is there for: its text without menus,
// footers and advertisements, and the language, author and date that it names.
//
// It owns the parting of a document into blocks and the judgement of each. The
// judgement is by the number of words of a block and of its neighbours, and by how
// many of these are links (Kohlschütter, Fankhauser, Nejdl: Boilerplate Detection
// using Shallow Text Features, WSDM 2010), after what the page itself marks as
// navigation or as content. It takes time in proportion to the document. It
// fetches nothing and builds no documents (package extract does).
package maintext

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
)

// MaxTextBytes bounds the text of a page.
const MaxTextBytes = 1 << 20

// Found is what a page says. Fields are empty where it does not.
type Found struct {
	Text      string // UTF-8; paragraphs, headings, list items and rows of tables on lines of their own
	Cut       bool   // the end of Text is missing: see MaxTextBytes
	Lang      string // as the page names it: en, de-AT
	Author    string // several with commas between
	Published string // 2006-01-02, or RFC 3339 in UTC
}

// named are what a page says of its text.
var named = mustCompile(
	`lang=html@lang || html@xml:lang || meta:content-language || meta:language || og:locale`,
	`author[]=meta:author || jsonld:Article.author || jsonld:NewsArticle.author || jsonld:BlogPosting.author || jsonld:author`+
		` || microdata:author.name || microdata:author || meta:dc.creator || meta:citation_author || [rel~=author]`,
	`published=meta:article:published_time || jsonld:Article.datePublished || jsonld:NewsArticle.datePublished`+
		` || jsonld:BlogPosting.datePublished || jsonld:datePublished || microdata:datePublished || meta:date || meta:dc.date`+
		` || meta:dcterms.created || meta:citation_publication_date || time[pubdate]@datetime || article time@datetime | date`,
)

func mustCompile(list ...string) *fields.Rules {
	rules, err := fields.New(fields.Group{Fields: list})
	if err != nil {
		panic(err) // a fault of this package
	}
	return rules
}

// Extract returns the main text of a document. It does not change the document,
// and leaves out what the page names when giveUp, which is optional, returns true.
func Extract(root *html.Node, giveUp func() bool) Found {
	var found Found
	for _, f := range named.For("").Extract(fields.Page{Root: root, GiveUp: giveUp}) {
		values := texts(f)
		switch {
		case len(values) == 0:
		case f.Name == "lang":
			found.Lang = language(values[0])
		case f.Name == "author":
			found.Author = strings.Join(values, ", ")
		default:
			found.Published = values[0]
		}
	}
	p := &page{}
	p.read(root)
	p.end()
	found.Text, found.Cut = p.text()
	return found
}

// texts returns the first few distinct values of a field that are no URLs.
func texts(f fields.Found) (all []string) {
	const most = 20
	for _, value := range f.Values {
		text := f.Text(value)
		if len(all) < most && len(text) <= 200 && !strings.Contains(text, "://") && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// language returns the first of a list of languages, if it has the form of one.
func language(text string) string {
	text, _, _ = strings.Cut(text, ",")
	text = strings.ReplaceAll(strings.TrimSpace(text), "_", "-")
	if len(text) < 2 || len(text) > 35 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return ""
	}
	return text
}
