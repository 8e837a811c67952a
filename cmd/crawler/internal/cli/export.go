package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newExport merges the records of the workers of a shared crawl.
func newExport(s streams) *cobra.Command {
	var shared sharedFlags
	var temp string
	cmd := &cobra.Command{
		Use:   "export [--redis URL --name NAME] [--out FILE] [DIR...]",
		Short: "Print the records of a crawl that workers share, each once",
		Long: `Print the records of a crawl that workers share: one for each round of a URL,
from the directories of all its workers, dead ones too. A DIR is a worker's, or
has such in it; bring those of other machines here first.

Some URL may have been fetched and not completed when its worker died. With
--redis and --name the crawl says which still wait to be fetched again, and
those have no record yet; the default DIR is then ./NAME.crawl. Nobody should
work on the crawl meanwhile. With --sink postgres the records come from there.`,
		Example: `  crawler export --redis redis://10.0.0.5 --name archive archive.crawl > pages.jsonl
  crawler export archive.crawl other-machine/archive.crawl > pages.jsonl`,
		DisableFlagsInUseLine: true,
	}
	shared.addTo(cmd.Flags())
	complete(cmd)
	cmd.Flags().Bool("json", false, "print JSON, as without: records are lines of JSON")
	cmd.Flags().StringVar(&temp, "temp", "", "`DIR` for what is sorted, 45 bytes a record (default the system's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		home, err := shared.wanted(cmd.Flags())
		if err != nil {
			return usage(err)
		}
		inRows, err := home.inRows(ctx)
		if err != nil {
			return err
		}
		if inRows {
			return lookAtCrawl(ctx, place{home: home}, s, nil, func(ses *session) error { return ses.printRecords(ctx, s.out) })
		}
		dirs, err := exported(args, home)
		if err != nil {
			return err
		}
		all := record.Export{Dirs: dirs, Temp: temp}
		var sums record.Exported
		if home == nil {
			sums, err = all.To(ctx, s.out)
		} else {
			err = lookAtCrawl(ctx, place{home: home}, s, nil, func(ses *session) (err error) {
				if err = home.ownsAll(dirs); err == nil {
					all.Pending = waiting(ctx, ses.store)
					sums, err = all.To(ctx, s.out)
				}
				return err
			})
		}
		if err != nil {
			return err
		}
		printExported(s.err, len(dirs), sums)
		return nil
	}
	return cmd
}

// inRows reports whether the records of the crawl are rows of a Postgres.
func (h *sharedHome) inRows(ctx context.Context) (bool, error) {
	if h == nil {
		return false, nil
	}
	settings, err := h.fixed(ctx)
	return settings["sink"] == sinkPostgres, err
}

// printRecords prints the crawl's records, wherever they are.
func (ses *session) printRecords(ctx context.Context, w io.Writer) error {
	records, err := ses.store.records(ctx)
	if err != nil {
		return err
	}
	return printLines(ctx, records.Lines(), w)
}

// exported returns the workers' directories that a command line names, or those
// of the crawl in home.
func exported(args []string, home *sharedHome) (dirs []string, err error) {
	switch {
	case len(args) == 0 && home == nil:
		return nil, usage(errors.New("no records: name the directories of workers, or --redis and --name"))
	case len(args) == 0:
		args = []string{home.shelf()}
	}
	if dirs, err = findJournals(args); err != nil {
		return nil, usage(err)
	}
	return dirs, oneCrawl(dirs)
}

// oneCrawl refuses directories of workers of several crawls.
func oneCrawl(dirs []string) error {
	var first *workerCard
	for _, dir := range dirs {
		card, err := readWorkerCard(dir)
		if err != nil {
			return err
		}
		if first == nil {
			first = card
		}
		if *card != *first {
			return usage(fmt.Errorf("%s is of the crawl %s (%s), but %s of %s (%s)", dirs[0], first.Crawl, first.ID, dir, card.Crawl, card.ID))
		}
	}
	return nil
}

// waiting are the items that a crawl has not finished.
func waiting(ctx context.Context, store frontier.Inspector) iter.Seq2[record.Key, error] {
	return func(yield func(record.Key, error) bool) {
		more := true
		for _, state := range []frontier.State{frontier.Leased, frontier.Queued} {
			err := store.List(ctx, state, "", func(item frontier.Item) bool {
				more = yield(record.Key{Item: item.Fingerprint, Round: item.Round}, nil)
				return more
			})
			if err != nil && more {
				more = yield(record.Key{}, err)
			}
			if !more {
				return
			}
		}
	}
}

func printExported(w io.Writer, dirs int, sums record.Exported) {
	fmt.Fprintf(w, "%s of %s: %s fetched again, %s taken back, %s still to be fetched, %s damaged\n",
		human.Plural(sums.Records, "record"), human.Plural(uint64(dirs), "worker"),
		human.Commas(sums.Repeated), human.Commas(sums.Void), human.Commas(sums.Pending), human.Commas(sums.Damaged))
	if sums.FirstDamage != "" {
		fmt.Fprintf(w, "the first damage: %s\n", sums.FirstDamage)
	}
}
