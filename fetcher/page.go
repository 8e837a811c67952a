package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// Page is a page that was received and is about to be completed. It is valid only during
// OnPage, and not safe for concurrent use.
type Page struct {
	URL      canon.URL
	Item     frontier.Item
	Response *get.Response  // valid, with its body, until OnPage returns
	Record   *record.Record // as it will be written; links are counted later

	document *extract.Page
	built    *goquery.Document // nil until Document was called
	visit    *visited
	links    *linkSet
}

// EventID returns the id of the event that is made from the page's record: the
// fingerprint of its URL in 32 hex digits, a dash and the round. The round is usually 0 at
// first, and larger after the finished URL was queued again (see frontier.Item). All calls
// of OnPage for the page in this round get the same id, also after a crash and in another
// worker. Two crawls give the same URL different fingerprints.
func (p *Page) EventID() string { return record.EventID(p.Item.Fingerprint, int(p.Item.Round)) }

// Document returns the parsed page. All calls return the same document. It is empty, not
// nil, if the page is not HTML, or if no document can be built; then Record.NotTaken has the
// reason. The first call may wait until other pages give memory back, so OnPage must not hold
// a lock during that call that another call of OnPage needs.
func (p *Page) Document() *goquery.Document {
	if p.document == nil {
		return goquery.NewDocumentFromNode(&html.Node{Type: html.DocumentNode})
	}
	if p.built == nil {
		p.visit.beginParsing()
		p.built = p.document.Document()
		p.visit.endParsing()
		p.visit.noteLack(p.document, p.Record)
	}
	return p.built
}

// Links returns the canonical URLs that the page will offer to the frontier.
func (p *Page) Links() []string {
	urls := make([]string, len(p.links.offers))
	for i := range p.links.offers {
		urls[i] = p.links.offers[i].URL
	}
	return urls
}

// Drop removes the links for which the function drop returns true. They count
// as refused, with reason "on_page".
func (p *Page) Drop(drop func(url string) bool) {
	kept := p.links.offers[:0]
	for _, offer := range p.links.offers {
		if drop(offer.URL) {
			p.links.refuse(frontier.ReasonOnPage, 1)
			p.links.detail(offer.URL, frontier.ReasonOnPage, "OnPage")
		} else {
			kept = append(kept, offer)
		}
	}
	p.links.offers = kept
}

// Add offers one more link. ref may be relative to the page's URL. The error is
// ErrNotOffered if the crawl's rules refuse the link.
func (p *Page) Add(ref string) error {
	url, err := p.links.cfg.Canon.Join(p.URL, ref)
	if err != nil {
		p.links.refuseReference(ref, err)
		return err
	}
	found := p.links.judge(url)
	p.links.add(url, frontier.PriorityPage, found)
	if found.Answer == follow.Refuses {
		return fmt.Errorf("%w: %s: %s", ErrNotOffered, url, found.Reason)
	}
	return nil
}

// handlerLeaves is how long OnPage and OnAnswer may still run after their context has ended.
const handlerLeaves = time.Second

// errAbandoned reports that OnPage or OnAnswer ignored the end of its context.
var errAbandoned = errors.New("fetcher: a handler goes on although its context has ended")

// callHandler calls OnPage or OnAnswer, whose context is v.hard. If the function ignores the end of its
// context, callHandler returns errAbandoned, sets v.abandoned, and the function goes on in its own goroutine.
func (v *visited) callHandler(handle func() error) error {
	done := make(chan error, 1)
	go func() { done <- handle() }()
	select {
	case err := <-done:
		return err
	case <-v.hard.Done():
	}
	leaves := time.NewTimer(handlerLeaves)
	defer leaves.Stop()
	select {
	case err := <-done:
		return err
	case <-leaves.C:
		v.abandoned = true
		v.cfg.Logger.Warn("a handler ignores the end of its context, its URL is queued again", slog.String("url", v.item.URL))
		return errAbandoned
	}
}
