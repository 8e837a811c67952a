package seeds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

// Submitter adds the chunks of a submission. *crawl.Handle implements it.
type Submitter interface {
	Submit(ctx context.Context, s crawl.Submission) (crawl.Submitted, error)
}

// Submitted counts the seeds of Submit.
type Submitted struct {
	crawl.SeedCounts
	Repeated uint64 // seeds to which an earlier call had the answers
}

// Submit does what Add does, once for an ID. It divides the URLs of r into chunks of crawl.SubmissionSeeds, whose sizes do not
// depend on how fast the input comes. A repeat, also after a crash, goes on where the earlier call ended, and has the counts
// of one call. If the URLs are not those of the earlier call, the error wraps crawl.ErrOtherPayload. The records of the
// seeds have key as their submission.
func Submit(ctx context.Context, r *Reader, to Submitter, id [32]byte, key string, notes io.Writer) (sum Submitted, err error) {
	next := crawl.Submission{ID: id, Key: key}
	var lines []Line
	credentials := dropCredentials{notes: notes}
	defer credentials.done()
	flush := func(last bool) error {
		next.Seeds, next.Check, next.Last = texts(lines), lines[0].Source == argument, last
		var got crawl.Submitted
		if err := untilAvailable(ctx, notes, "seeds wait", func() (err error) {
			got, err = to.Submit(ctx, next)
			return err
		}); err != nil {
			return err
		}
		for i, a := range got.Answers {
			sum.Count(a)
			if a.Answer == frontier.Refused.String() {
				fmt.Fprintf(notes, "seed refused: %s: %s\n", lines[i].Source, a.Message)
			}
		}
		if got.Repeated {
			sum.Repeated += uint64(len(lines))
		}
		next.Chunk++
		lines = lines[:0]
		return nil
	}
	for {
		line, err := r.Next()
		var fault *LineError
		switch {
		case errors.Is(err, io.EOF):
			if len(lines) > 0 {
				err = flush(true)
			} else {
				err = nil
			}
			sum.All = err == nil
			return sum, err
		case errors.As(err, &fault):
			sum.Refused++
			fmt.Fprintf(notes, "seed refused: %v\n", fault)
			continue
		case err != nil:
			return sum, err // the lines that were read are not the whole chunk
		}
		// A chunk is submitted when the next line is known, so that the last one is known.
		if len(lines) == crawl.SubmissionSeeds || len(lines) > 0 && (lines[0].Source == argument) != (line.Source == argument) {
			if err := flush(false); err != nil {
				return sum, err
			}
		}
		lines = append(lines, credentials.from(line))
	}
}

// Digest returns a key for the URLs of r: equal URLs have equal keys. It reads r to its end.
func Digest(r *Reader) (string, error) {
	sum := sha256.New()
	for {
		line, err := r.Next()
		var fault *LineError
		switch {
		case errors.Is(err, io.EOF):
			return "auto-" + hex.EncodeToString(sum.Sum(nil)[:16]), nil
		case errors.As(err, &fault):
			continue
		case err != nil:
			return "", err
		}
		fmt.Fprintf(sum, "%t %s\n", line.Source == argument, line.Text)
	}
}
