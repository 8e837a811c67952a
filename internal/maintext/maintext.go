// Package maintext finds the main text of a page, without menus, footers and
// advertisements, and the language, author and date that the page names.
//
// It divides a document into blocks and decides which of them are content. It first
// uses what the page itself marks as navigation or as content. Then it uses the number
// of words of a block and of its neighbours, and how many of these words are links
// (Kohlschütter, Fankhauser, Nejdl: Boilerplate Detection using Shallow Text Features,
// WSDM 2010). The time is proportional to the size of the document. The package fetches
// nothing and builds no documents (package extract does).
package maintext

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
)

// MaxTextBytes is the maximum length of the text of a page.
const MaxTextBytes = 1 << 20

// Found is the result of Extract. Fields are empty if the page does not have the value.
type Found struct {
	Text      string // UTF-8; paragraphs, headings, list items and rows of tables on lines of their own
	Cut       bool   // the end of Text is missing: see MaxTextBytes and Extract
	Lang      string // as the page names it: en, de-AT
	Author    string // several authors are separated by commas
	Published string // 2006-01-02, or RFC 3339 in UTC
}

// named are the rules for the fields that a page names: language, author and date.
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

// Extract returns the main text of a document and the fields that the page names. It does
// not change the document. It calls giveUp every few steps. If giveUp returns true, Extract
// soon ends: some of these fields may be missing, and the text is cut. giveUp is optional.
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
	p := &page{giveUp: giveUp, wrappers: make([]wrapper, 1)}
	p.read(root)
	p.end()
	if len(p.blocks) == 0 { // a script shows the page
		p = &page{giveUp: giveUp, wrappers: make([]wrapper, 1), hidden: true}
		p.read(root)
		p.end()
	}
	found.Text, found.Cut = p.text()
	return found
}

// texts returns the distinct values of a field that are neither URLs nor too long, up to a
// maximum number.
func texts(f fields.Found) (all []string) {
	const maxTexts = 20
	for _, value := range f.Values {
		text := f.Text(value)
		if len(all) < maxTexts && len(text) <= 200 && !strings.Contains(text, "://") && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// language returns the first of a list of languages, or "" if it does not have the form of a
// language tag.
func language(text string) string {
	text, _, _ = strings.Cut(text, ",")
	text = strings.ReplaceAll(strings.TrimSpace(text), "_", "-")
	if len(text) < 2 || len(text) > 35 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return ""
	}
	return text
}
