package crawl_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events/inbox"
)

// OnPage can be called more than once for a page. With package inbox, this OnPage writes
// to Postgres only once for each Page.EventID.
func ExampleConfig_onPageOnce() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if _, err := inbox.Migrate(ctx, db, ""); err != nil {
		log.Fatal(err)
	}
	box, err := inbox.Open(ctx, inbox.Config{DB: pool, Group: "titles"})
	if err != nil {
		log.Fatal(err)
	}
	err = crawl.Run(ctx, crawl.Config{
		Dir:   "go.dev.crawl",
		Seeds: []string{"https://go.dev/"},
		OnPage: func(ctx context.Context, page *crawl.Page) error {
			_, err := box.Once(ctx, page.EventID(), func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO titles (url, title) VALUES ($1, $2)", page.URL.String(), page.Record.Title)
				return err
			})
			return err // after an error, the page is fetched again
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
