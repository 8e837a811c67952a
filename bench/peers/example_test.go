package peers_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/gocolly/colly/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
)

// A program can use the filter alone, in front of colly. Colly's own set of visited
// URLs is switched off. If several pages link to a URL, the URL is visited once. Ten
// million URLs take 36 MB.
func Example_filterInFrontOfColly() {
	// The site has a root page and the pages /a to /d. Every page has links to /a to /d.
	var fetched atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="/a">a</a> <a href="/b">b</a> <a href="/c">c</a> <a href="/d">d</a>`))
	}))
	defer server.Close()

	filter, err := membits.New(membits.Config{Capacity: 10_000_000, FPR: 1e-6})
	if err != nil {
		log.Fatal(err)
	}
	hasher := bloomstore.NewHasher(bloomstore.NewKey()) // a random key: no site can make URLs that collide

	collector := colly.NewCollector(colly.Async(), colly.AllowURLRevisit())
	collector.OnHTML("html", func(page *colly.HTMLElement) {
		var links []string
		var prints []bloomstore.Fingerprint
		for _, link := range page.ChildAttrs("a[href]", "href") {
			link = page.Request.AbsoluteURL(link)
			links = append(links, link)
			prints = append(prints, hasher.Fingerprint(link))
		}
		added, err := filter.AddIfAbsent(context.Background(), prints)
		if err != nil {
			log.Print(err)
			return
		}
		for i, link := range links {
			if added[i] {
				_ = page.Request.Visit(link) // collector.OnError reports errors
			}
		}
	})
	if err := collector.Visit(server.URL + "/"); err != nil {
		log.Fatal(err)
	}
	collector.Wait()
	fmt.Println(fetched.Load(), "requests")
	// Output: 5 requests
}
