package crawl

import (
	"github.com/PuerkitoBio/goquery"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Page is a fetched page, as OnPage receives it. It is valid only during OnPage, and not safe for
// concurrent use.
type Page struct {
	URL      canon.URL
	Item     frontier.Item  // the URL in the queue: its depth, its attempts, its round
	Response *get.Response  // status, header and body
	Record   *record.Record // as it will be written; links are counted later

	page *fetcher.Page
}

func newPage(p *fetcher.Page) *Page { return &Page{p.URL, p.Item, p.Response, p.Record, p} }

// EventID returns the id of the event that is made from the page's record. All calls of OnPage for the
// page in this round get the same id, also after a crash and in another worker.
func (p *Page) EventID() string { return p.page.EventID() }

// Document returns the parsed page. All calls return the same document. It is empty, not nil, if the page
// is not HTML, or if no document can be built; then Record.NotTaken has the reason. The first call may
// wait until other pages give memory back, so OnPage must not hold a lock during that call that another
// call of OnPage needs.
func (p *Page) Document() *goquery.Document { return p.page.Document() }

// Links returns the canonical URLs that the page will offer to the frontier.
func (p *Page) Links() []string { return p.page.Links() }

// Drop removes the links for which the function drop returns true. They count as refused, with reason
// "dropped".
func (p *Page) Drop(drop func(url string) bool) { p.page.Drop(drop) }

// Add offers one more link. ref may be relative to the page's URL. The error is fetcher.ErrNotOffered if
// the crawl's rules refuse the link.
func (p *Page) Add(ref string) error { return p.page.Add(ref) }
