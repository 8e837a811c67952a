package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// AddVersion stores a version of the crawl's policy and removes all but the last kept ones. version is a text that
// package pgstore does not read. The result is false if there is a later version, or another one with this number. The
// call can be repeated after an error.
func (s *Store) AddVersion(ctx context.Context, number uint64, version string, kept int) (added bool, err error) {
	err = s.queryRow(ctx, "store a version of the policy", s.sql("add_version"), []any{s.crawl, number, version, kept}, &added)
	return added, err
}

// Versions returns the newest versions of the crawl's policy, at most the given number, latest first.
func (s *Store) Versions(ctx context.Context, most int) ([]string, error) {
	return query(ctx, s, "read the policy", s.sql("versions"), pgx.RowTo[string], s.crawl, most)
}
