package crawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/crawl"
)

// A complete program: it prints the first heading of each page of a site.
func Example() {
	ctx := context.Background()
	err := crawl.Run(ctx, crawl.Config{
		Dir:   "go.dev.crawl",
		Seeds: []string{"https://go.dev/"},
		OnPage: func(ctx context.Context, page *crawl.Page) error {
			fmt.Println(page.URL, page.Document().Find("h1").First().Text())
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// OnPage is called for each page. The crawl is stored in the directory, so the same call
// resumes it.
func ExampleRun() {
	site := exampleSite()
	defer site.Close()
	defer inTempDir()()

	ctx := context.Background()
	config := crawl.Config{
		Dir:   "example.crawl",
		Seeds: []string{site.URL},
		OnPage: func(ctx context.Context, page *crawl.Page) error {
			fmt.Println(page.Document().Find("h1").First().Text())
			return nil
		},
	}
	config.Requests.AllowPrivate = true // the example's site has a private address
	if err := crawl.Run(ctx, config); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Page /
	// Page /next
}

// Fields are extracted from each page before OnPage is called. They are in the page's
// record.
func ExampleConfig_fields() {
	site := exampleSite()
	defer site.Close()
	defer inTempDir()()

	ctx := context.Background()
	config := crawl.Config{
		Dir:    "example.crawl",
		Seeds:  []string{site.URL},
		Fields: []crawl.FieldGroup{{Fields: []string{"name=h1", "links[]=a@href | raw"}}},
		OnPage: func(ctx context.Context, page *crawl.Page) error {
			var data struct {
				Name  string
				Links []string
			}
			if err := json.Unmarshal(page.Record.Fields, &data); err != nil {
				return err
			}
			fmt.Println(data.Name, data.Links)
			return nil
		},
	}
	config.Requests.AllowPrivate = true
	if err := crawl.Run(ctx, config); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Page / [/next]
	// Page /next [/next]
}

// Attach returns a Handle on a crawl. The crawl can run in this process, in another
// one, or not at all.
func ExampleAttach() {
	site := exampleSite()
	defer site.Close()
	defer inTempDir()()

	ctx := context.Background()
	config := crawl.Config{Dir: "example.crawl", Seeds: []string{site.URL}}
	config.Requests.AllowPrivate = true
	if err := crawl.Run(ctx, config); err != nil {
		log.Fatal(err)
	}

	handle, err := crawl.Attach(ctx, crawl.Location{Dir: "example.crawl"})
	if err != nil {
		log.Fatal(err)
	}
	defer handle.Close()
	status, err := handle.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d URLs are done, %d are queued\n", status.Stats.Done, status.Stats.Queued)

	records := 0
	for _, err := range handle.Records(ctx) { // each is a line of JSON
		if err != nil {
			log.Fatal(err)
		}
		records++
	}
	audit, err := handle.Audit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d records, the books balance: %t\n", records, audit.Balanced)
	// Output:
	// 2 URLs are done, 0 are queued
	// 2 records, the books balance: true
}

// With Open instead of Run, the caller can inspect and stop the crawl while it runs, and
// the result says how the crawl ended.
func ExampleOpen() {
	site := exampleSite()
	defer site.Close()
	defer inTempDir()()

	var pages atomic.Int64
	config := crawl.Config{
		Dir:      "example.crawl",
		Seeds:    []string{site.URL},
		MaxPages: 1,
		OnPage: func(context.Context, *crawl.Page) error {
			pages.Add(1)
			return nil
		},
	}
	config.Requests.AllowPrivate = true
	ctx := context.Background()
	opened, err := crawl.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	result, err := opened.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d page, %d URL is queued\n", result.End, pages.Load(), result.Stats.Queued)
	// Output:
	// limit: 1 page, 1 URL is queued
}

// exampleSite serves two pages.
func exampleSite() *httptest.Server {
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/next"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<h1>Page %s</h1><a href="/next">next</a>`, r.URL.Path)
		})
	}
	return httptest.NewServer(mux)
}

// inTempDir changes to a new temporary directory. The function leave returns to the previous
// directory and removes the temporary one.
func inTempDir() (leave func()) {
	before, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		log.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	return func() {
		_ = os.Chdir(before)
		_ = os.RemoveAll(dir)
	}
}
