package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Waited has the numbers of URLs that waited in a crawl's queue at one moment.
type Waited struct {
	All   uint64 // URLs that were queued or leased
	Exact uint64 // exact URLs among them
}

// Kept is what Postgres stores about a crawl's queue, in case the queue is lost.
type Kept struct {
	Identity string
	Card     []byte // Config.Card; nil means that there was none
	Waited
	At time.Time // when Waited was stored, by the server's clock, UTC; zero means never
}

// Read returns what is stored about the queue of the crawl cfg.Crawl. It changes nothing.
// It returns ErrNoCrawl if there is no crawl with this name. It uses only Crawl and the
// connection settings of cfg.
func Read(ctx context.Context, cfg Config) (kept Kept, err error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return kept, err
	}
	defer s.Close()
	none := fmt.Errorf("%w: %q", ErrNoCrawl, cfg.Crawl)
	switch version, err := s.version(ctx); {
	case err != nil:
		return kept, err
	case version == 0: // the database has no schema
		return kept, none
	}
	if err := s.checkSchema(ctx, false); err != nil {
		return kept, err
	}
	var noted *time.Time
	err = s.queryRow(ctx, "read what is kept of the queue", s.sql("kept"), []any{cfg.Crawl},
		&kept.Identity, &kept.Card, &kept.All, &kept.Exact, &noted)
	if errors.Is(err, pgx.ErrNoRows) {
		err = none
	}
	if noted != nil {
		kept.At = noted.UTC()
	}
	return kept, err
}

// Keep stores how many URLs wait in the crawl's queue now. It does nothing if the stored
// numbers are younger than age.
func (s *Store) Keep(ctx context.Context, waited Waited, age time.Duration) error {
	return s.exec(ctx, "note what waits in the queue", s.sql("keep"), s.crawl, waited.All, waited.Exact, age)
}
