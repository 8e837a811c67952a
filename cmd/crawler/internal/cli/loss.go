package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/internal/human"
)

// acceptLoss lets a crawl go on whose pages.jsonl became shorter, and says what
// is missing. With all records there it says so and changes nothing.
func (ses *session) acceptLoss(ctx context.Context, w io.Writer) error {
	store := ses.store.(localEngine)
	books, err := store.Recount(ctx)
	if err != nil {
		return err
	}
	rest, cut, err := record.Rest(record.Config{Dir: ses.dir}, books.Position)
	if err != nil {
		return err
	}
	switch {
	case cut.Name == "":
		fmt.Fprintf(w, "the records of %s are in no file: no loss to accept\n", ses.title())
		return nil
	case !cut.Missing():
		fmt.Fprintf(w, "%s is as long as was committed: no loss to accept\n", recordsIn(ses.dir))
		return nil
	}
	reader := record.Reader{Dir: ses.dir, End: rest}
	left, err := countRecords(ctx, reader.Lines())
	if err != nil {
		return fmt.Errorf("the records that are left cannot be counted: %w", err)
	}
	loss, err := lossOf(&books, &left)
	if err != nil {
		return fmt.Errorf("%s: %w", cut.Name, err)
	}
	away, err := reader.MovedAway()
	if err != nil {
		return err
	}
	if err := store.AcceptLoss(ctx, rest, loss); err != nil {
		return err
	}
	printLoss(w, cut, left.all, loss, len(away))
	return nil
}

// lossOf returns what the records that are left lack.
func lossOf(books *localstore.Recount, left *recordCounts) (localstore.RecordLoss, error) {
	c := &books.Counters
	loss := localstore.RecordLoss{
		Records: c.Records - left.all, Pages: c.Pages - left.pages, Outcomes: make(map[frontier.Outcome]uint64),
		Done:     localstore.RecordSum{Count: books.Done.Count - left.done.Count, Sum: books.Done.Sum - left.done.Sum},
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
		return loss, errors.New("it has records that this crawl never wrote: it is not its file")
	}
	return loss, nil
}

// printLoss says what is missing. Which lines of a file were taken out cannot be
// told: the range is that of a file of which the end was.
func printLoss(w io.Writer, cut record.Cut, left uint64, loss localstore.RecordLoss, away int) {
	fmt.Fprintf(w, "%s has %s of the %s bytes that were committed: %s bytes are missing\n",
		cut.Name, human.Commas(uint64(cut.Size)), human.Commas(uint64(cut.Committed)), human.Commas(uint64(cut.Committed-cut.Size)))
	if half := cut.Size - cut.Whole; half > 0 {
		fmt.Fprintf(w, "its last %s bytes are part of a line, which goes too\n", human.Commas(uint64(half)))
	}
	fmt.Fprintf(w, "lost: %s of %s", human.Plural(loss.Records, "record"), human.Commas(left+loss.Records))
	if loss.Records > 0 && away == 0 {
		fmt.Fprintf(w, ", numbers %s to %s (bytes %s to %s of the file) if its end was cut off",
			human.Commas(left+1), human.Commas(left+loss.Records), human.Commas(uint64(cut.Whole)), human.Commas(uint64(cut.Committed)))
	}
	fmt.Fprintln(w)
	if away > 0 {
		fmt.Fprintf(w, "they include those of %s that is not in the directory\n", human.Plural(uint64(away), "closed file"))
	}
	fmt.Fprintln(w, "their URLs stay done or failed and are not fetched again, but for those that 'crawler retry' offers again")
}
