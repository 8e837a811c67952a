package speed

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
)

// OpenPostgres starts a Postgres, or returns one that is there: the URL of a
// database, which gets the schema of package pgstore.
type OpenPostgres func(ctx context.Context) (dsn string, end func() error, err error)

// Postgres is package pgstore: what a link is before the queue hears of it. It is
// asked for as many at once as a whole page, or several, may have.
func Postgres(open OpenPostgres) Subject {
	return Subject{Name: "pgstore", Batches: []uint64{4, 100, 500}, Open: func(ctx context.Context, _ uint64) (*Opened, error) {
		dsn, end, err := open(ctx)
		if err != nil {
			return nil, err
		}
		name := newName()
		config := pgstore.Config{DSN: dsn, Crawl: name, Identity: name, MaxConns: callers[len(callers)-1]}
		set, err := pgstore.Open(ctx, config)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			set.Close()
			return nil, errors.Join(err, pgstore.Delete(ctx, config), end())
		}
		return &Opened{Offer: decideBy(set), Used: writtenBy(conn), Close: func(ctx context.Context) error {
			set.Close()
			return errors.Join(conn.Close(ctx), pgstore.Delete(ctx, config), end())
		}}, nil
	}}
}

// decideBy has an exact tier decide about links.
func decideBy(set exact.Set) func(context.Context, uint64, uint64) (uint64, error) {
	return func(ctx context.Context, first, n uint64) (added uint64, err error) {
		keys := make([]exact.Key, n)
		for i := range keys {
			link := itemOf(first + uint64(i))
			keys[i] = exact.Key{Fingerprint: printOf(first + uint64(i)), URL: link.URL, Class: link.Class, Depth: link.Depth, Priority: link.Priority}
		}
		answers, err := set.Decide(ctx, keys)
		for _, answer := range answers {
			if answer.New {
				added++
			}
		}
		return added, err
	}
}

// writtenBy returns what asks a Postgres for the length of its log. It counts
// neither its processor time nor what goes over the wire.
func writtenBy(conn *pgx.Conn) func(context.Context) (Server, error) {
	return func(ctx context.Context) (used Server, err error) {
		err = conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").Scan(&used.Log)
		return used, err
	}
}
