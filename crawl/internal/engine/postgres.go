package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Database is a Postgres that a crawl uses.
type Database struct {
	DSN       string
	Where     string // DSN without secrets
	NoMigrate bool
}

// open opens the part of a crawl that is in the database, or creates this part. The argument
// config names the crawl.
func (d *Database) open(ctx context.Context, config pgstore.Config) (*pgstore.Store, error) {
	config.DSN, config.NoMigrate = d.DSN, d.NoMigrate
	set, err := pgstore.Open(ctx, config)
	return set, d.explain(err)
}

// inspect opens the part of an existing crawl that is in the database.
func (d *Database) inspect(ctx context.Context, name string) (*pgstore.Store, error) {
	set, err := pgstore.Inspect(ctx, pgstore.Config{DSN: d.DSN, Crawl: name})
	return set, d.explain(err)
}

// explain adds the name of the database to an error.
func (d *Database) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", d.Where, err)
}

var errNoSet = errors.New("the crawl has no exact keys in Postgres, or Postgres does not answer")

// ReconcileSet implements Change.
func (e *sharedEngine) ReconcileSet(ctx context.Context, refill bool) (exact.Reconciled, error) {
	if e.exact == nil {
		return exact.Reconciled{}, errNoSet
	}
	return e.exact.forwarder.Reconcile(ctx, refill)
}

// ExactElsewhere implements Look.
func (e *sharedEngine) ExactElsewhere() bool { return e.exactElsewhere }
