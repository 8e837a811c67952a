package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// newOutput prints the records of a crawl.
func newOutput(s streams) *cobra.Command {
	var dir, temp string
	var postgres postgresFlags
	var referrers bool
	cmd := &cobra.Command{
		Use:   "output [--dir DIR] [--postgres URL] [--referrers] [--out FILE]",
		Short: "Print the records of a crawl, of all its files",
		Long: `Print the records of a crawl, running or not: of all its files in their order,
packed ones too, and only those that are committed. Each is there once for each
round of its URL.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	postgres.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&referrers, "referrers", false, "add to each record, as \"referrer\", the URL of the page that named it")
	cmd.Flags().Bool("json", false, "print JSON, as without: records are lines of JSON")
	cmd.Flags().StringVar(&temp, "temp", "", "`DIR` for what --referrers sorts, some 250 bytes a record (default the system's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := existing(cmd.Context(), dir)
		if err != nil {
			return err
		}
		if at, err = postgres.beside(at, cmd.Flags()); err != nil {
			return err
		}
		settings, err := at.fixed(cmd.Context())
		if err != nil {
			return &exitError{exitFailed, err}
		}
		if settings["sink"] == sinkPostgres {
			return at.printRows(cmd.Context(), s.out, referrers)
		}
		reader, err := committedRecords(cmd.Context(), at, s)
		if err != nil {
			return err
		}
		if referrers {
			return reader.JoinReferrers(s.out, temp)
		}
		return printLines(cmd.Context(), reader.Lines(), s.out)
	}
	return cmd
}

// printRows prints the records of a crawl that are rows of a Postgres: nobody
// who runs the crawl need be asked.
func (at place) printRows(ctx context.Context, w io.Writer, referrers bool) error {
	if referrers {
		return usage(errors.New("--referrers is for records in files: join rows in Postgres"))
	}
	d := at.home.(directory)
	id, err := localstore.StoredID(nil, d.path)
	if err != nil {
		return &exitError{exitFailed, err}
	}
	if d.db == nil {
		return errRowsElsewhere(at.title())
	}
	set, err := d.db.inspect(ctx, rowsName(id))
	if err != nil {
		return err
	}
	defer set.Close()
	return printLines(ctx, rows{ctx: ctx, set: set}.Lines(), w)
}

// committedRecords returns the records that a crawl in a directory has committed now.
func committedRecords(ctx context.Context, at place, s streams) (record.Reader, error) {
	var reader record.Reader
	err := lookAtCrawl(ctx, at, s,
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

// printLines copies records.
func printLines(ctx context.Context, lines iter.Seq2[[]byte, error], w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for line, err := range lines {
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
