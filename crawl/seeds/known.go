package seeds

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/internal/seed"
)

const (
	knownBatch = 10_000 // number of URLs that are marked at once
	knownShown = 10     // number of malformed lines that are reported one by one
)

// Marker marks URLs as seen. *crawl.Crawl implements it.
type Marker interface {
	MarkSeen(ctx context.Context, urls []string) (fresh int, faults []error, err error)
}

// Known counts URLs that were marked as seen.
type Known struct {
	URLs      uint64
	Fresh     uint64 // URLs that were new to the crawl
	Malformed uint64 // lines that are not URLs
}

// MarkSeen marks the URLs of r as seen. It is stricter than Add: a URL must have a scheme.
// Otherwise a wrong URL could be marked as seen, and be lost. MarkSeen writes a line to notes
// for each of the first ten malformed lines, and if the store is unavailable.
func MarkSeen(ctx context.Context, r *Reader, to Marker, notes io.Writer) (Known, error) {
	var known Known
	batch := make([]Line, 0, knownBatch)
	malformed := func(fault error) {
		if known.Malformed++; known.Malformed <= knownShown {
			fmt.Fprintf(notes, "not known: %v\n", fault)
		}
	}
	flush := func() error {
		var faults []error
		err := untilAvailable(ctx, notes, "known URLs wait", func() (err error) {
			var fresh int
			fresh, faults, err = to.MarkSeen(ctx, texts(batch))
			known.Fresh += uint64(fresh) // also before an error, because a repeated call finds these URLs marked
			return err
		})
		if err != nil {
			return err
		}
		for i, fault := range faults {
			if fault != nil {
				malformed(&LineError{batch[i].Source, seed.Fault(batch[i].Text, fault, seed.WantURL)})
				continue
			}
			known.URLs++
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
			return known, err
		case errors.As(err, &fault):
			malformed(fault)
			continue
		case err != nil:
			err = errors.Join(err, flush())
			return known, err
		}
		if batch = append(batch, line); len(batch) == knownBatch {
			if err := flush(); err != nil {
				return known, err
			}
		}
	}
}
