package cli

import (
	"bufio"
	"io"
	"iter"

	"github.com/spf13/cobra"
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
		ctx := cmd.Context()
		at, err := directoryOf(dir)
		if err != nil {
			return err
		}
		if at, err = postgres.beside(at, cmd.Flags()); err != nil {
			return err
		}
		c, err := at.attach(ctx)
		if err != nil {
			return err
		}
		if referrers {
			return at.explain(c.WriteReferrers(ctx, s.out, temp))
		}
		return at.explain(printLines(c.Records(ctx), s.out))
	}
	return cmd
}

// printLines copies records.
func printLines(lines iter.Seq2[[]byte, error], w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for line, err := range lines {
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
