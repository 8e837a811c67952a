package fetcher

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// feedMemory is the memory for reading a feed, without its links: mostly for its longest token.
const feedMemory = 3 << 20

// feed adds the links of a feed: those of its items to pages, with Assets those to enclosures, and
// those of the feed to its other parts. It returns false if the visit must be given back.
func (v *visited) feed(links *linkSet, early *earlyLinks, options extract.Options, nofollow bool, r *record.Record) bool {
	if !v.growShare(feedMemory) || !v.beginParsing() {
		return false
	}
	var sum sitemap.Summary
	var err error
	bases := xmlBases{canon: v.cfg.Canon, url: v.url}
	document := extract.Listed(v.url, options, func(add func(extract.Kind, string)) {
		sum, err = sitemap.ReadFeed(bytes.NewReader(v.answer.Body), v.answer.MIMEType(), func(entry sitemap.Entry) bool {
			kind := extract.Related
			if entry.Kind == sitemap.Enclosure {
				kind = extract.Media
			}
			add(kind, bases.resolve(entry))
			return v.hard.Err() == nil
		})
	})
	v.endParsing()
	v.growShare(-feedMemory)
	if early.failed || v.hard.Err() != nil {
		return false
	}
	links.refuse(frontier.ReasonTooMany, document.TooMany+sum.TooMany)
	links.refuse(frontier.ReasonTooLong, sum.TooLong)
	links.refuse(frontier.ReasonMalformed, sum.Undecoded)
	if err != nil && r.Error == "" && !v.answer.Truncated {
		r.Error = fmt.Sprintf("read the feed: %v", err)
	}
	v.addEdges(document, nofollow)
	links.addDocument(document, nofollow)
	return true
}

// xmlBases resolves references relative to the xml:base of the elements around them (XML Base).
type xmlBases struct {
	canon  *canon.Canonicalizer
	url    canon.URL // of the file
	values []string  // of xml:base, to which base belongs
	base   canon.URL
}

// of returns the base of an element with these values of xml:base, outermost first. As in HTML, a
// value that is not an http URL is ignored.
func (x *xmlBases) of(values []string) canon.URL {
	if len(values) == 0 {
		return x.url
	}
	if slices.Equal(values, x.values) {
		return x.base
	}
	x.base, x.values = x.url, slices.Clone(values)
	for _, value := range values {
		if base, err := x.canon.Join(x.base, value); err == nil {
			x.base = base
		}
	}
	return x.base
}

// resolve returns the URL of an entry, absolute if its base is not the file. A URL that cannot be
// resolved is returned as it is.
func (x *xmlBases) resolve(entry sitemap.Entry) string {
	if len(entry.Bases) == 0 {
		return entry.URL
	}
	url, err := x.canon.Join(x.of(entry.Bases), entry.URL)
	if err != nil {
		return entry.URL
	}
	return url.String()
}
