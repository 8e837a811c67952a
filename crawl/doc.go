// Package crawl runs, inspects and controls crawls. It is the entry point of this
// module: the command line uses it, and so can any other program.
//
// A crawl is stored at a Location: a directory, or a Redis that many workers share.
// A crawl at either location can also use a Postgres. Run executes a crawl until nothing
// is left to fetch:
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
// The same program resumes a crawl that ended early, also after kill -9. Open is
// for programs that need the steps of Run one by one. It returns a Crawl. Attach returns
// a Handle on a crawl, whether a process runs the crawl or not. A Handle inspects and
// controls this crawl, and never creates a crawl. Rebuild, Delete and Export also work on a
// crawl that cannot be opened.
//
// The package owns a crawl as a whole: its settings, the locations of its parts, the
// order in which the parts are opened, which processes are allowed to open them, and
// the methods of a Handle. It does not own the queue (package frontier), the requests
// (package fetcher) or the terminal (the command). It sets no process-wide limit and
// handles no signal.
package crawl
