package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier"
)

var _ frontier.Contents = (*Store)(nil)

// contentTries is how often First asks for contents that others store at the same moment. The second call finds them, unless the
// crawl is removed.
const contentTries = 5

// contentRow is a content and the first item with it.
type contentRow struct{ Content, First []byte }

// First implements frontier.Contents.
func (s *Store) First(ctx context.Context, showed []frontier.ShowedBy) ([]frontier.Referrer, error) {
	contents, items := make([][]byte, len(showed)), make([][]byte, len(showed))
	for i := range showed {
		item := frontier.ReferrerOf(showed[i].Item)
		contents[i], items[i] = showed[i].Content[:], item[:]
	}
	first := make([]frontier.Referrer, len(showed))
	for range contentTries {
		rows, err := query(ctx, s, "look up contents", s.sql("first_with"), pgx.RowToStructByPos[contentRow], s.crawl, contents, items)
		if err != nil {
			return nil, err
		}
		known := make(map[frontier.Content]frontier.Referrer, len(rows))
		for _, row := range rows {
			known[frontier.Content(row.Content)] = frontier.Referrer(row.First)
		}
		missing := 0
		for i := range showed {
			if by, found := known[showed[i].Content]; found {
				first[i] = by
			} else {
				missing++
			}
		}
		if missing == 0 {
			return first, nil
		}
	}
	return nil, fmt.Errorf("pgstore: look up contents: %w: other writers stored some in every attempt", frontier.ErrUnavailable)
}
