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

// Reconcile looks up in Postgres which exact URLs are unfinished, and offers to the queue those
// that the queue lacks. It skips URLs that another worker might be offering at this moment. If
// the argument refill is true, Reconcile offers all unfinished exact URLs.
func (e *Engine) Reconcile(ctx context.Context, refill bool) (exact.Reconciled, error) {
	if e.shared == nil || e.shared.exact == nil {
		return exact.Reconciled{}, errors.New("the crawl has no exact keys in Postgres, or Postgres does not answer")
	}
	return e.shared.exact.Reconcile(ctx, refill)
}

// ExactElsewhere reports whether the exact keys are in Postgres. The result has a meaning only in
// a process that does not crawl. For a worker it is always false.
func (e *Engine) ExactElsewhere() bool { return e.shared != nil && e.shared.exactElsewhere }
