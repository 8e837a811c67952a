package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// newOutput prints the records of a crawl.
func newOutput(s streams) *cobra.Command {
	var dir, temp string
	var referrers bool
	cmd := &cobra.Command{
		Use:   "output [--dir DIR] [--referrers]",
		Short: "Print the records of a crawl, of all its files",
		Long: `Print the records of a crawl, running or not: of all its files in their order,
packed ones too, and only those that are committed. Each is there once for each
round of its URL.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.Flags().BoolVar(&referrers, "referrers", false, "add to each record, as \"referrer\", the URL of the page that named it")
	cmd.Flags().StringVar(&temp, "temp", "", "`DIR` for what --referrers sorts, some 250 bytes a record (default the system's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := existing(cmd.Context(), dir)
		if err != nil {
			return err
		}
		reader, err := committedRecords(cmd.Context(), at, s)
		if err != nil {
			return err
		}
		if referrers {
			return reader.JoinReferrers(s.out, temp)
		}
		return printRecords(cmd.Context(), reader, s.out)
	}
	return cmd
}

// committedRecords returns the records that a crawl in a directory has committed now.
func committedRecords(ctx context.Context, at place, s streams) (record.Reader, error) {
	var reader record.Reader
	err := visitCrawl(ctx, at, s,
		func() error { return callControl(ctx, at.dir, "GET", "/position", nil, &reader.End) },
		func(ses *session) (err error) {
			reader.End, err = ses.store.Position(ctx)
			return err
		})
	reader.Dir = at.dir
	return reader, err
}

func (ses *session) handlePosition(w http.ResponseWriter, r *http.Request) {
	end, err := ses.store.Position(r.Context())
	reply(w, end, err)
}

func printRecords(ctx context.Context, reader record.Reader, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for line, err := range reader.Lines() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
