package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newExport returns the command that merges the records of the workers of a crawl.
func newExport(s streams) *cobra.Command {
	var shared sharedFlags
	var temp, to string
	var without bool
	cmd := &cobra.Command{
		Use:   "export [--redis URL --name NAME] [--out FILE | --without-blocked --warc DIR] [DIR...]",
		Short: "Print the records of a crawl that workers share, each once",
		Long: `Print the records of a crawl that workers share: one for each round of a URL,
from the directories of all its workers, dead ones too. A DIR is the directory
of a worker, or contains such directories. First copy those of other machines to
this one.

If a worker died before it completed a fetched URL, the URL is fetched again.
With --redis and --name the crawl tells which URLs still wait for that; they have
no record yet. The default DIR is then ./NAME.crawl. No worker should run
meanwhile. With --sink postgres the records are read from Postgres.

With --without-blocked and --warc, the WARC files of a crawl are copied instead,
without the answers of URLs that crawler block hides. DIR can then also be a crawl in
a directory.`,
		Example: `  crawler export --redis redis://10.0.0.5 --name archive archive.crawl > pages.jsonl
  crawler export archive.crawl other-machine/archive.crawl > pages.jsonl
  crawler export --without-blocked --warc public go.dev.crawl`,
	}
	shared.addTo(cmd.Flags())
	complete(cmd)
	cmd.Flags().Bool("json", false, "print lines of JSON, as without this flag")
	cmd.Flags().StringVar(&temp, "temp", "", "`DIR` for the temporary files of the sort, 45 bytes a record (default the system's)")
	cmd.Flags().BoolVar(&without, "without-blocked", false, "with --warc: leave out the answers of blocked URLs")
	cmd.Flags().StringVar(&to, "warc", "", "copy the WARC files to `DIR`, with --without-blocked")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := shared.wanted(cmd.Flags())
		if err != nil {
			return err
		}
		if without || to != "" {
			return exportWARC(cmd.Context(), s, at, args, without, to)
		}
		if at.Redis == nil && len(args) == 0 {
			return usage(errors.New("no records: name the directories of workers, or --redis and --name"))
		}
		sums, err := crawl.Export(cmd.Context(), at.Location, args, temp, s.out)
		if err != nil {
			return at.explain(err)
		}
		if sums.Dirs > 0 {
			printExported(s.err, sums.Dirs, sums.Exported)
		}
		return nil
	}
	return cmd
}

// exportWARC copies the WARC files of a crawl without the answers of blocked URLs.
func exportWARC(ctx context.Context, s streams, at location, dirs []string, without bool, to string) error {
	switch {
	case !without:
		return usage(errors.New("--warc needs --without-blocked: to copy all answers, copy the files"))
	case to == "":
		return usage(errors.New("--without-blocked needs --warc DIR, where the WARC files are copied to"))
	case at.Redis == nil && len(dirs) != 1:
		return usage(errors.New("--without-blocked needs the directory of one crawl, or --redis and --name"))
	case at.Redis == nil:
		at.Dir, dirs = dirs[0], nil
	}
	h, err := crawl.Attach(ctx, at.Location)
	if err != nil {
		return at.explain(err)
	}
	sum, err := h.ExportWARC(ctx, dirs, to)
	if err != nil {
		return at.explain(err)
	}
	_, err = fmt.Fprintf(s.err, "%s copied to %s: %s, %s left out\n", human.Plural(uint64(sum.Files), "file"), to,
		human.Plural(uint64(sum.Records), "record"), human.Commas(uint64(sum.Blocked)))
	return err
}

func printExported(w io.Writer, dirs int, sums record.Exported) {
	fmt.Fprintf(w, "%s of %s: %s fetched again, %s taken back, %s still to be fetched, %s damaged\n",
		human.Plural(sums.Records, "record"), human.Plural(uint64(dirs), "worker"),
		human.Commas(sums.Repeated), human.Commas(sums.Void), human.Commas(sums.Pending), human.Commas(sums.Damaged))
	if sums.FirstDamage != "" {
		fmt.Fprintf(w, "the first damage: %s\n", sums.FirstDamage)
	}
}
