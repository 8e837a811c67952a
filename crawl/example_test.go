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
	"time"

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
	settings := crawl.DefaultSettings()
	settings.AllowPrivate = true // the example's site has a private address
	config := crawl.Config{
		Dir:      "example.crawl",
		Seeds:    []string{site.URL},
		Settings: settings,
		OnPage: func(ctx context.Context, page *crawl.Page) error {
			fmt.Println(page.Document().Find("h1").First().Text())
			return nil
		},
	}
	if err := crawl.Run(ctx, config); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Page /
	// Page /next
}

// Settings begin with the defaults. What an existing crawl has stored holds for all that is left as it is.
func ExampleConfig() {
	ctx, seeds := context.Background(), []string{"https://example.org/"}
	settings := crawl.DefaultSettings()
	settings.Scope, settings.Delay = "domain", 5*time.Second
	err := crawl.Run(ctx, crawl.Config{Dir: "archive.crawl", Seeds: seeds, Settings: settings})
	if err != nil {
		log.Fatal(err)
	}
}

// Fields are extracted from each page before OnPage is called. They are in the page's
// record.
func ExampleConfig_settings() {
	site := exampleSite()
	defer site.Close()
	defer inTempDir()()

	ctx := context.Background()
	settings := crawl.DefaultSettings()
	settings.AllowPrivate = true
	settings.Fields = []crawl.FieldGroup{{Fields: []string{"name=h1", "links[]=a@href | raw"}}}
	config := crawl.Config{
		Dir:      "example.crawl",
		Seeds:    []string{site.URL},
		Settings: settings,
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
	settings := crawl.DefaultSettings()
	settings.AllowPrivate = true
	config := crawl.Config{Dir: "example.crawl", Seeds: []string{site.URL}, Settings: settings}
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
	settings := crawl.DefaultSettings()
	settings.AllowPrivate, settings.MaxPages = true, 1
	config := crawl.Config{
		Dir:      "example.crawl",
		Seeds:    []string{site.URL},
		Settings: settings,
		OnPage: func(context.Context, *crawl.Page) error {
			pages.Add(1)
			return nil
		},
	}
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
