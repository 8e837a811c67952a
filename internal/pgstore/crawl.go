package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// join finds the crawl. For a worker it also compares the fixed settings, and creates the
// crawl if there is none. If several workers join at once, one creates the crawl and the
// others wait.
func (s *Store) join(ctx context.Context, worker bool) error {
	identity, err := s.find(ctx)
	if errors.Is(err, ErrNoCrawl) && worker {
		if err := s.create(ctx); err != nil {
			return err
		}
		identity, err = s.find(ctx)
	}
	if err != nil {
		return err
	}
	if worker && identity != s.cfg.Identity {
		return mismatch("crawl %q in Postgres belongs to the crawl %q, not to %q: give this crawl another name, or delete the one in Postgres",
			s.cfg.Crawl, identity, s.cfg.Identity)
	}
	s.identity = identity
	return s.checkWindows(ctx, worker)
}

// find reads the crawl's row and returns its identity.
func (s *Store) find(ctx context.Context) (identity string, err error) {
	var floor uint32
	err = s.queryRow(ctx, "find the crawl", s.sql("find_crawl"), []any{s.cfg.Crawl}, &s.crawl, &identity, &floor)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("%w: %q", ErrNoCrawl, s.cfg.Crawl)
	}
	s.floor.Store(floor)
	s.statements = statementsOf(s.crawl)
	return identity, err
}

func (s *Store) create(ctx context.Context) error {
	classes, lengths := []int16{}, []time.Duration{}
	for class, length := range s.cfg.Windows {
		if length > 0 {
			classes, lengths = append(classes, int16(class)), append(lengths, length)
		}
	}
	return s.exec(ctx, "create the crawl", s.sql("create_crawl"), s.cfg.Crawl, s.cfg.Identity, s.cfg.Card, classes, lengths)
}

// checkWindows reads the crawl's windows and, for a worker, compares them with those of the
// Config.
func (s *Store) checkWindows(ctx context.Context, worker bool) error {
	var stored exact.Windows
	err := s.try(ctx, "read the windows", func(ctx context.Context) error {
		return s.run(ctx, s.sql("windows"), []any{s.crawl}, func(rows pgx.Rows) error {
			var class int16
			var length time.Duration
			_, err := pgx.ForEachRow(rows, []any{&class, &length}, func() error {
				if class < 0 || class >= exact.Classes {
					return mismatch("crawl %q has a window for class %d, want 0 to %d", s.cfg.Crawl, class, exact.Classes-1)
				}
				stored[class] = length
				return nil
			})
			return err
		})
	})
	if err != nil || !worker {
		return err
	}
	var differ []string
	for class, length := range stored {
		if given := s.cfg.Windows[class]; given != length {
			differ = append(differ, fmt.Sprintf("that of class %d is %v, not %v", class, length, given))
		}
	}
	if len(differ) > 0 {
		return mismatch("crawl %q was created with other windows: %s", s.cfg.Crawl, strings.Join(differ, ", "))
	}
	return nil
}

// mismatchError is an ErrParamsMismatch with its own complete text.
type mismatchError string

func mismatch(format string, args ...any) error {
	return mismatchError("pgstore: " + fmt.Sprintf(format, args...))
}

func (e mismatchError) Error() string        { return string(e) }
func (e mismatchError) Is(target error) bool { return target == frontier.ErrParamsMismatch }

// Delete removes the crawl cfg.Crawl with its keys and records. It does not block other
// crawls. Running workers of the crawl stop with ErrNoCrawl. Delete returns ErrNoCrawl if
// there is no crawl with this name. It ignores Identity and Windows of cfg.
func Delete(ctx context.Context, cfg Config) error {
	s, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.checkSchema(ctx, false); err != nil {
		return err
	}
	var dropped bool
	err = s.queryRow(ctx, "delete the crawl", s.sql("drop_crawl"), []any{cfg.Crawl}, &dropped)
	if err == nil && !dropped {
		err = fmt.Errorf("%w: %q", ErrNoCrawl, cfg.Crawl)
	}
	return err
}
