package sets

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Callers is the maximum number of concurrent callers of a set.
const Callers = 16

// Postgres returns the Kind for the exact set of package pgstore, which creates its schema in
// the database at dsn. In a crawl, this set decides whether a link is new before the link is
// offered to the queue.
func Postgres(dsn string) Kind {
	return Kind{Name: "pgstore", Open: func(ctx context.Context, _ Plan) (*Set, error) {
		name := newName()
		config := pgstore.Config{DSN: dsn, Crawl: name, Identity: name, MaxConns: Callers}
		keys, err := pgstore.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		return &Set{
			Add: func(ctx context.Context, links Links) ([]bool, error) {
				answers, err := keys.Decide(ctx, KeysOf(links))
				added := make([]bool, len(answers))
				for i, answer := range answers {
					added[i] = answer.New
				}
				return added, err
			},
			Contains: func(ctx context.Context, links Links) ([]bool, error) {
				known := make([]bool, links.Len())
				for i := range known {
					status, err := keys.Lookup(ctx, links.Print(i))
					if err != nil {
						return nil, err
					}
					known[i] = status.State != exact.Unknown
				}
				return known, nil
			},
			Used:   func(ctx context.Context) (Used, error) { return writtenTo(ctx, dsn) },
			Close:  func() error { keys.Close(); return nil },
			Remove: func(ctx context.Context) error { return pgstore.Delete(ctx, config) },
		}, nil
	}}
}

// KeysOf returns the keys of links for an exact set.
func KeysOf(links Links) []exact.Key {
	return each(links, func(i int) exact.Key {
		offer := links.Offer(i)
		return exact.Key{Fingerprint: links.Print(i), URL: offer.URL, Class: offer.Class, Depth: offer.Depth, Priority: offer.Priority}
	})
}

// writtenTo returns the length of the server's write-ahead log. Postgres does not report
// its processor time or its network traffic.
func writtenTo(ctx context.Context, dsn string) (used Used, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8").Scan(&used.Log)
	return used, err
}
