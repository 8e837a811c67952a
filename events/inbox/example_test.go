package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// A program counts pages. The count and the mark of the event are in one transaction, so
// that a repeated event does not count twice.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, databaseURL(ctx))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if _, err := inbox.Migrate(ctx, db, ""); err != nil { // call it at each start; it creates missing tables
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE total (pages int); INSERT INTO total VALUES (0)"); err != nil {
		log.Fatal(err)
	}

	box, err := inbox.Open(ctx, inbox.Config{DB: pool, Group: "count"})
	if err != nil {
		log.Fatal(err)
	}
	e, err := inbox.CloudEvent([]byte(`{"specversion":"1.0","source":"urn:crawler:1","id":"0a-3","type":"page.done","data":{}}`))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the broker delivers it twice
		result, err := box.Once(ctx, e.ID, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE total SET pages = pages + 1")
			return err
		})
		if err != nil {
			log.Fatal(err) // do not acknowledge the event
		}
		fmt.Println(result)
	}
	fmt.Println(queryValue[int](ctx, pool, "SELECT pages FROM total"), "page")
	// Output:
	// done
	// duplicate
	// 1 page
}

// databaseURL returns the URL of a new database.
func databaseURL(ctx context.Context) string {
	server, err := commonServer()
	if err != nil {
		log.Fatal(err)
	}
	url, err := server.NewDatabase(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return url
}

// openInbox opens an inbox in a new database, which also has the given tables.
func openInbox(ctx context.Context, tables string) (*inbox.Inbox, *pgxpool.Pool) {
	pool, err := pgxpool.New(ctx, databaseURL(ctx))
	if err != nil {
		log.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if _, err := inbox.Migrate(ctx, db, ""); err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, tables); err != nil {
		log.Fatal(err)
	}
	box, err := inbox.Open(ctx, inbox.Config{DB: pool, Group: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return box, pool
}

// queryValue returns the single value that a query returns.
func queryValue[T any](ctx context.Context, pool *pgxpool.Pool, query string) (value T) {
	if err := pool.QueryRow(ctx, query).Scan(&value); err != nil {
		log.Fatal(err)
	}
	return value
}

// An index of pages has a row for each page. If a finished page is queued and fetched again, its
// next event has a higher round. The order of events does not matter, because an event with a
// lower round than the row changes nothing.
func Example_index() {
	ctx := context.Background()
	box, pool := openInbox(ctx, "CREATE TABLE pages (url text PRIMARY KEY, round int NOT NULL, title text NOT NULL)")
	defer pool.Close()
	for _, round := range []int{1, 3, 2} {
		e := inbox.Event{
			ID:   fmt.Sprintf("urn:crawler:1 0a-%d", round),
			Type: "page.done",
			Data: fmt.Appendf(nil, `{"data":{"url":"http://a/","round":%d,"title":"as of round %d"}}`, round, round),
		}
		_, err := box.Once(ctx, e.ID, func(ctx context.Context, tx pgx.Tx) error { return indexPage(ctx, tx, e) })
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(queryValue[string](ctx, pool, "SELECT title FROM pages"))
	// Output: as of round 3
}

// indexPage writes the page of an event to the index, unless the index has a later round.
func indexPage(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
	var event struct {
		Data struct {
			URL   string `json:"url"`
			Round int    `json:"round"`
			Title string `json:"title"`
		} `json:"data"`
	}
	if err := json.Unmarshal(e.Data, &event); err != nil {
		return fmt.Errorf("%w: %w", inbox.ErrPermanent, err)
	}
	page := &event.Data
	_, err := tx.Exec(ctx, `INSERT INTO pages (url, round, title) VALUES ($1, $2, $3)
		ON CONFLICT (url) DO UPDATE SET round = excluded.round, title = excluded.title
		WHERE excluded.round >= pages.round`, page.URL, page.Round, page.Title)
	return err
}

// The state of an order goes from placed to paid to sent. Its events can arrive in any
// order, because the state machine never goes back.
func Example_stateMachine() {
	ctx := context.Background()
	box, pool := openInbox(ctx, `CREATE TYPE state AS ENUM ('placed', 'paid', 'sent'); -- in this order
		CREATE TABLE orders (id bigint PRIMARY KEY, state state NOT NULL)`)
	defer pool.Close()
	for _, state := range []string{"placed", "sent", "paid"} {
		_, err := box.Once(ctx, "order 17 is "+state, func(ctx context.Context, tx pgx.Tx) error {
			return advance(ctx, tx, 17, state)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(queryValue[string](ctx, pool, "SELECT state::text FROM orders WHERE id = 17"))
	// Output: sent
}

// advance sets the state of an order, unless it has that state or a later one already.
func advance(ctx context.Context, tx pgx.Tx, order int64, state string) error {
	_, err := tx.Exec(ctx, `INSERT INTO orders (id, state) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state WHERE orders.state < excluded.state`, order, state)
	return err
}
