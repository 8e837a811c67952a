package seeds

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// seedBatch is how many seeds are offered at once.
const seedBatch = 500

// Adder adds seeds. *crawl.Handle implements it.
type Adder interface {
	Seed(ctx context.Context, seeds []string) ([]crawl.SeedAnswer, error)
	SeedChecked(ctx context.Context, seeds []string) ([]crawl.SeedAnswer, error)
}

// untilAvailable calls the function call, and repeats this while the store is unavailable.
// Before the first repetition it writes one line with the message and the error to notes.
func untilAvailable(ctx context.Context, notes io.Writer, message string, call func() error) error {
	return crawl.UntilAvailable(ctx, func(err error) { fmt.Fprintf(notes, "%s: %v\n", message, err) }, call)
}

// Add adds the URLs of r to a crawl as seeds. The names of hosts of arguments are looked up
// first. Credentials in a seed are dropped. Add writes a line to notes for each refused seed,
// for seeds with credentials, and if the store is unavailable. It goes on after each of them.
func Add(ctx context.Context, r *Reader, to Adder, notes io.Writer) (crawl.SeedCounts, error) {
	var counts crawl.SeedCounts
	var batch []Line
	credentials := dropCredentials{notes: notes}
	defer credentials.done()
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		call := to.Seed
		if batch[0].Source == argument {
			call = to.SeedChecked
		}
		var answers []crawl.SeedAnswer
		if err := untilAvailable(ctx, notes, "seeds wait", func() (err error) {
			answers, err = call(ctx, texts(batch))
			return err
		}); err != nil {
			return err
		}
		for i, a := range answers {
			counts.Count(a)
			if a.Answer == frontier.Refused.String() {
				fmt.Fprintf(notes, "seed refused: %s: %s\n", batch[i].Source, a.Message)
			}
		}
		batch = batch[:0]
		return nil
	}
	for {
		line, err := r.Next()
		var fault *LineError
		switch {
		case errors.Is(err, io.EOF):
			err = flush()
			counts.All = err == nil
			return counts, err
		case errors.As(err, &fault):
			counts.Refused++
			fmt.Fprintf(notes, "seed refused: %v\n", fault)
			continue
		case err != nil:
			err = errors.Join(err, flush())
			return counts, err
		}
		if len(batch) > 0 && (batch[0].Source == argument) != (line.Source == argument) {
			if err := flush(); err != nil {
				return counts, err
			}
		}
		if batch = append(batch, credentials.from(line)); len(batch) == seedBatch || r.mayBlock() {
			if err := flush(); err != nil {
				return counts, err
			}
		}
	}
}

// credentialsShown is the number of seeds with credentials that are reported one by one.
const credentialsShown = 10

// dropCredentials removes credentials from seeds, and warns about them.
type dropCredentials struct {
	notes io.Writer
	seeds uint64 // seeds with credentials
}

func (d *dropCredentials) from(line Line) Line {
	bare, had := seed.WithoutCredentials(line.Text)
	if !had {
		return line
	}
	if d.seeds++; d.seeds <= credentialsShown {
		fmt.Fprintf(d.notes, "warning: %s: the user name and password in %s are not used; "+
			"to send them crawl with -H 'Authorization: Basic BASE64', the base64 of USER:PASSWORD\n", line.Source, seed.Shown(line.Text))
	}
	line.Text = bare
	return line
}

// done reports how many more seeds had credentials.
func (d *dropCredentials) done() {
	if d.seeds > credentialsShown {
		fmt.Fprintf(d.notes, "warning: %d more seeds have a user name and password that are not used\n", d.seeds-credentialsShown)
	}
}
