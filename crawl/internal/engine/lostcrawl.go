package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// LostError reports a crawl that is in Postgres but not in Redis, because Redis was
// emptied or the location names another Redis. Rebuild restores the crawl.
type LostError struct {
	Crawl string // its name, without secrets
	kept  pgstore.Kept
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("Postgres has the crawl %s, but Redis does not: this Redis was emptied, or is not the one of the crawl.\n%s.", e.Crawl, e.Loss())
}

// Loss describes the URLs that were lost with Redis.
func (e *LostError) Loss() string {
	if e.kept.At.IsZero() {
		return "The number of URLs that waited there is unknown; Postgres has the exact ones, the others are lost"
	}
	bulk := e.kept.All - min(e.kept.Exact, e.kept.All)
	return fmt.Sprintf("About %s waited there at %s; Postgres has the exact ones, about %s, and about %s are lost",
		human.Plural(e.kept.All, "URL"), e.kept.At.Format("2006-01-02 15:04:05 MST"),
		human.Commas(e.kept.Exact), human.Plural(bulk, "other"))
}

// lostCrawl is called if Redis does not have the crawl. It returns a *LostError if Postgres has
// the crawl. It returns nil if neither has the crawl.
func (h *Server) lostCrawl(ctx context.Context) (*Stored, error) {
	if h.DB == nil {
		return nil, nil
	}
	kept, err := pgstore.Read(ctx, pgstore.Config{DSN: h.DB.DSN, Crawl: h.Name})
	if errors.Is(err, pgstore.ErrNoCrawl) {
		return nil, nil
	}
	if err != nil {
		return nil, h.DB.explain(err)
	}
	// Another worker might be creating the crawl at this moment: first in Redis, then in
	// Postgres. So look in Redis once more.
	settings, _, err := redisstore.Stored(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return nil, &LostError{h.String(), kept}
	} else if err != nil {
		return nil, h.explain(err)
	}
	return &Stored{Settings: settings}, nil
}

// Recreate implements Place.
func (h *Server) Recreate(ctx context.Context) (*LostError, error) {
	_, err := h.Stored(ctx)
	lost, is := errors.AsType[*LostError](err)
	if !is {
		return nil, err
	}
	err = redisstore.Recreate(ctx, h.config(), lost.kept.Card)
	if errors.Is(err, redisstore.ErrExists) { // another process has just created it
		return nil, nil
	}
	if err != nil {
		return nil, h.explain(err)
	}
	return lost, nil
}
