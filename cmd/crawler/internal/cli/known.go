package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/seed"
)

const (
	knownBatch = 10_000 // number of URLs that are marked at once
	knownShown = 10     // number of malformed lines that are reported one by one
)

// marker marks URLs as seen. *crawl.Crawl implements it.
type marker interface {
	MarkSeen(ctx context.Context, urls []string) (fresh int, faults []error, err error)
}

// markKnown marks the URLs of --known as seen, before any seed is added. A resumed run
// marks them again, because the file might have grown.
func (r *running) markKnown(ctx context.Context, to marker) (err error) {
	w := r.console
	if r.known == "" {
		return nil
	}
	lines, err := newSeedReader(ctx, nil, r.known, nil)
	if err != nil {
		return fmt.Errorf("--known: %w", err)
	}
	defer func() { err = errors.Join(err, lines.close()) }()
	var known, fresh, malformed uint64
	urls := make([]string, 0, knownBatch)
	flush := func() error {
		err := untilAvailable(ctx, w, "known URLs wait", func() error {
			n, _, err := to.MarkSeen(ctx, urls)
			fresh += uint64(n)
			return err
		})
		known, urls = known+uint64(len(urls)), urls[:0]
		return err
	}
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var fault lineError
		if err != nil && !errors.As(err, &fault) {
			return errors.Join(fmt.Errorf("--known: %w", err), flush())
		}
		if err == nil {
			// The line is not parsed as a seed, because a seed without a scheme becomes
			// an https URL. A wrong URL would then be marked as seen, and be lost.
			url, parseErr := r.canon.Parse(line.text)
			if parseErr == nil {
				urls = append(urls, url.String())
			} else {
				err = errors.New(line.source + ": " + seed.Fault(line.text, parseErr, seed.WantURL))
			}
		}
		if err != nil {
			if malformed++; malformed <= knownShown {
				fmt.Fprintf(w, "not known: %v\n", err)
			}
		}
		if len(urls) == knownBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if r.quiet {
		return nil
	}
	fmt.Fprintf(w, "known: %s, %s of them new here, %s malformed\n",
		human.Plural(known, "URL"), human.Commas(fresh), human.Plural(malformed, "line"))
	return nil
}
