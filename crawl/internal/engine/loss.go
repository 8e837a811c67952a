package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// Loss says which records are missing from the files of a crawl.
type Loss struct {
	record.Cut
	Left    uint64 // records that are not missing
	Records uint64 // records that are missing
	Away    int    // closed files that are not in the directory: their records count as missing
	None    bool   // nothing is missing
}

// AcceptRecordLoss implements Change.
func (l *localEngine) AcceptRecordLoss(ctx context.Context) (*Loss, error) {
	books, err := l.Recount(ctx)
	if err != nil {
		return nil, err
	}
	rest, cut, err := record.Rest(record.Config{Dir: l.dir}, books.Position)
	if err != nil {
		return nil, err
	}
	if cut.Name == "" || !cut.Missing() {
		return &Loss{Cut: cut, None: true}, nil
	}
	reader := record.Reader{Dir: l.dir, End: rest, Erased: true}
	left, err := countRecords(ctx, reader.Lines())
	if err != nil {
		return nil, fmt.Errorf("the records that are left cannot be counted: %w", err)
	}
	loss, err := lossOf(&books, &left)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cut.Name, err)
	}
	away, err := reader.MovedAway()
	if err != nil {
		return nil, err
	}
	return &Loss{Cut: cut, Left: left.all, Records: loss.Records, Away: len(away)}, l.AcceptLoss(ctx, rest, loss)
}

// lossOf returns the counts of the missing records.
func lossOf(books *localstore.Recount, left *recordCounts) (localstore.RecordLoss, error) {
	c := &books.Counters
	loss := localstore.RecordLoss{
		Records: c.Records - left.all, Pages: c.Pages - left.pages, Outcomes: make(map[frontier.Outcome]uint64),
		Done:     localstore.RecordSum{Count: books.Finished.Count - left.done.Count, Sum: books.Finished.Sum - left.done.Sum},
		Failures: localstore.RecordSum{Count: books.Failures.Count - left.failures.Count, Sum: books.Failures.Sum - left.failures.Sum},
	}
	more := left.all > c.Records || left.pages > c.Pages
	for outcome := range union(c.Outcomes, left.outcomes) {
		more = more || left.outcomes[outcome] > c.Outcomes[outcome]
		if n := c.Outcomes[outcome] - left.outcomes[outcome]; n > 0 {
			loss.Outcomes[outcome] = n
		}
	}
	if more {
		return loss, errors.New("it has records that this crawl did not write: it belongs to another crawl")
	}
	return loss, nil
}
