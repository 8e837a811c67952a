// Package crawl runs, inspects and steers crawls. It is the door of this module:
// the command line enters through it, and so can any other program.
//
// A crawl lives at a Location: a directory, or a Redis that many workers share,
// with a Postgres beside either. Run crawls there until nothing is left:
//
//	err := crawl.Run(ctx, crawl.Config{
//		Dir:   "go.dev.crawl",
//		Seeds: []string{"https://go.dev/"},
//		OnPage: func(ctx context.Context, page *crawl.Page) error {
//			fmt.Println(page.URL, page.Document().Find("h1").First().Text())
//			return nil
//		},
//	})
//
// The same program resumes a crawl that ended early, also after kill -9. Open
// does the same in steps, and returns a Crawl. Attach returns a Handle on a crawl
// that another process runs, or that nothing runs: a Handle looks and steers, and
// never creates anything. Rebuild, Delete and Export work on a crawl that cannot
// be opened.
//
// The package owns what a crawl is as one thing: its settings, where its parts
// are, who may open them in which order, and the verbs of a Handle. It does not
// own the queue (package frontier), the requests (package fetcher) or what people
// see (the command). It sets no process-wide limit and handles no signal.
package crawl
