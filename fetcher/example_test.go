package fetcher_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// This program crawls a site and handles each page in OnPage. The frontier is in a
// directory. If a program uses the same directory again, it continues the crawl.
func Example() {
	site := httptest.NewServer(http.HandlerFunc(serveSite))
	defer site.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := localstore.Open(localstore.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	// The rules of robots.txt for "example" apply, and each request has this user agent.
	client, err := get.New(get.Config{UserAgent: "example/1.0 (+https://example.org/bot)", AllowPrivate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	var words atomic.Int64
	rules := policy.Default(time.Now())
	rules.Politeness = politeness.Policy{} // no delay, because it is our own site
	crawl, err := fetcher.New(fetcher.Config{
		Store: store, Scope: store, Client: client,
		Policy: policy.NewLive(rules).Load,
		OnPage: func(_ context.Context, page *fetcher.Page) error {
			words.Add(int64(len(strings.Fields(page.Document().Find("p").Text()))))
			page.Drop(func(url string) bool { return strings.Contains(url, "/login") })
			return nil // an error would queue the page again
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := crawl.Seeds(ctx, []string{site.URL}); err != nil {
		log.Fatal(err)
	}
	end, err := crawl.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d pages, %d words\n", end, stats.Pages, words.Load())
	fmt.Printf("%d of the %d URLs is disallowed by robots.txt\n", stats.Outcomes[frontier.Robots], stats.Added)
	fmt.Printf("found %d = %d added + %d seen + %d refused\n", stats.Found, stats.Added, stats.Seen, stats.RefusedTotal())
	// Output:
	// empty: 3 pages, 6 words
	// 1 of the 4 URLs is disallowed by robots.txt
	// found 13 = 4 added + 6 seen + 3 refused
}

// serveSite serves three pages that all link to each other, to a login page and to a page
// that robots.txt disallows for "example".
func serveSite(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/robots.txt":
		fmt.Fprint(w, "User-agent: example\nDisallow: /private\n")
	case "/", "/one", "/two":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<p>two words</p> <a href="/one">1</a> <a href="/two#x">2</a> <a href="/login">in</a> <a href="/private">p</a>`)
	default:
		http.NotFound(w, r)
	}
}
