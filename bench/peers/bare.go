// Package peers compares the speed and the cost of the crawler with those of two others: colly,
// and a bare loop, which gives none of the crawler's guarantees.
package peers

import (
	"bytes"
	"context"
	"strings"

	"github.com/PuerkitoBio/goquery"
	"github.com/andybalholm/cascadia"

	"github.com/bloomfrontier/crawler/bench/contest"
)

// Loops are the crawlers that are compared with ours, by name, for contest.Part. "bare" is the
// bare loop of package contest. Like colly, it parses the whole document with goquery to find
// links.
var Loops = map[string]contest.Crawl{
	"bare": func(ctx context.Context, order contest.Order) (contest.Took, error) {
		return contest.Loop(ctx, order, references)
	},
	"colly": viaColly,
}

var links = cascadia.MustCompile("a[href]")

// references appends each distinct link of a page, without its fragment, to the slice
// found.
func references(body *bytes.Buffer, found []string) ([]string, error) {
	document, err := goquery.NewDocumentFromReader(body)
	if err != nil {
		return found, err
	}
	known := make(map[string]bool) // the same link is often on a page several times
	for _, node := range document.FindMatcher(links).Nodes {
		for _, attribute := range node.Attr {
			if attribute.Key != "href" {
				continue
			}
			reference, _, _ := strings.Cut(attribute.Val, "#")
			if reference != "" && !known[reference] {
				known[reference], found = true, append(found, reference)
			}
			break
		}
	}
	return found, nil
}
