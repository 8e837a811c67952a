package peers

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gocolly/colly/v2"

	"github.com/bloomfrontier/crawler/bench/contest"
)

// viaColly is the crawler that colly's documentation shows. It is asynchronous, stays
// on one host, and makes up to order.Workers requests at once. All other settings are
// colly's defaults. It stores nothing of a page, and keeps the set of visited URLs in
// memory.
//
// Fragments are cut off, because colly treats URLs with different fragments as
// different pages. Pages are counted by URL, because colly does not check and mark a
// page as visited in one step: it can fetch a page twice if two links are followed at
// once.
func viaColly(ctx context.Context, order contest.Order) (took contest.Took, err error) {
	start, began := order.Seeds[0], time.Now()
	base, err := url.Parse(start)
	if err != nil {
		return took, err
	}
	collector := colly.NewCollector(
		colly.Async(),
		colly.AllowedDomains(base.Hostname()),
		colly.StdlibContext(ctx),
	)
	if err := collector.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: order.Workers}); err != nil {
		return took, err
	}
	var mu sync.Mutex
	html := make(map[string]bool)
	collector.OnResponse(func(r *colly.Response) {
		if strings.HasPrefix(r.Headers.Get("Content-Type"), "text/html") {
			mu.Lock()
			defer mu.Unlock()
			html[r.Request.URL.String()] = true
		}
	})
	collector.OnHTML("a[href]", func(link *colly.HTMLElement) {
		if page, _, _ := strings.Cut(link.Attr("href"), "#"); page != "" {
			_ = link.Request.Visit(page) // the error says "already visited" or "not this domain"
		}
	})
	if err := collector.Visit(start); err != nil {
		return took, err
	}
	collector.Wait()
	took = contest.Took{Pages: uint64(len(html)), Seconds: time.Since(began).Seconds()}
	return took, context.Cause(ctx)
}
