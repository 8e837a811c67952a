package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

// seedBatch is how many seeds are offered at once.
const seedBatch = 500

// seeder adds seeds. *crawl.Handle implements it.
type seeder interface {
	Seed(ctx context.Context, seeds []string) ([]crawl.SeedAnswer, error)
	SeedChecked(ctx context.Context, seeds []string) ([]crawl.SeedAnswer, error)
}

// untilAvailable calls the function call, and repeats this while the store is unavailable.
// Before the first repetition it prints one line with the message and the error.
func untilAvailable(ctx context.Context, stderr io.Writer, message string, call func() error) error {
	return crawl.UntilAvailable(ctx, func(err error) { fmt.Fprintf(stderr, "%s: %v\n", message, err) }, call)
}

// feed adds all seeds of r. It reports each refused seed at once, and continues.
func feed(ctx context.Context, r *seedReader, h seeder, stderr io.Writer) (crawl.SeedCounts, error) {
	var counts crawl.SeedCounts
	var batch []seedLine
	credentials := dropCredentials{stderr: stderr}
	defer credentials.done()
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		texts := make([]string, len(batch))
		for i, line := range batch {
			texts[i] = line.text
		}
		call := h.Seed
		if batch[0].source == "argument" {
			call = h.SeedChecked // looks up the names of hosts first
		}
		var answers []crawl.SeedAnswer
		if err := untilAvailable(ctx, stderr, "seeds wait", func() (err error) {
			answers, err = call(ctx, texts)
			return err
		}); err != nil {
			return err
		}
		for i, a := range answers {
			counts.Count(a)
			if a.Answer == frontier.Refused.String() {
				fmt.Fprintf(stderr, "seed refused: %s: %s\n", batch[i].source, a.Message)
			}
		}
		batch = batch[:0]
		return nil
	}
	for {
		line, err := r.next()
		var fault lineError
		switch {
		case errors.Is(err, io.EOF):
			err = flush()
			counts.All = err == nil
			return counts, err
		case errors.As(err, &fault):
			counts.Refused++
			fmt.Fprintf(stderr, "seed refused: %v\n", fault)
			continue
		case err != nil:
			return counts, errors.Join(err, flush())
		}
		if len(batch) > 0 && batch[0].source == "argument" != (line.source == "argument") {
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

// mayBlock reports whether reading the next line can take long. If so, the caller adds the
// seeds that it has read so far, because a pipe can stay open for hours.
func (r *seedReader) mayBlock() bool {
	return r.name == "stdin" && len(r.args) == 0 && (r.lines == nil || r.lines.Buffered() == 0)
}
