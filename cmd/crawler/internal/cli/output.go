package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	crawler "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newOutput returns the command that prints the records of a crawl.
func newOutput(s streams) *cobra.Command {
	var crawl target
	var tables tableFlags
	var selection crawler.Selection
	cmd := &cobra.Command{
		Use: "output [--dir DIR | --redis URL --name NAME] [--format jsonl|csv|parquet] [--columns NAMES]\n" +
			"    [--where CONDITION] [--sort COLUMNS] [--limit N] [--all-rounds] [--referrers] [--out FILE]",
		Short: "Print the records of a crawl, as JSON lines, CSV or Parquet",
		Long: `Print the committed records of a crawl, running or not: from all files of all
workers in their order, also from compressed files, or from Postgres. Each URL has
one record for each of its rounds. Only the latest one is printed, unless
--all-rounds is given, and only the latest one is tested by --where.

A CONDITION compares columns, joined with and, or, not and parentheses, as in
"status >= 400 and not (url ~ /tag/ or depth > 3)"; see docs/reference/output.md.`,
		Example: `  crawler output --dir go.dev.crawl --format parquet --out pages.parquet
  crawler output --format csv --columns url,status,title --where 'status >= 400'
  crawler output --sort -bytes --limit 10 --columns url,bytes --where 'not (host = go.dev or depth > 3)'`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	tables.addTo(cmd.Flags(), table.Records())
	cmd.Flags().BoolVar(&selection.AllRounds, "all-rounds", false, "print the records of all rounds of a URL, not only its latest one")
	cmd.Flags().BoolVar(&selection.Referrers, "referrers", false, "add to each record, as \"referrer\", the URL of the page that named it")
	cmd.Flags().BoolVar(&selection.Content, "latest-content", false, "print of each URL the last record of a page with a body, not that of the last check")
	cmd.Flags().Var((*since)(&selection.ChangedSince), "changed-since", "print of each URL the last record since `TIME` (7d, 12h, 2026-11-28T10:00:00Z) that says new, changed or gone")
	cmd.Flags().Bool("json", false, "print lines of JSON, as without this flag")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		wanted, err := tables.table(s)
		if err != nil {
			return usage(err)
		}
		selection.Once, selection.Temp = !wanted.ReadsTwice(), tables.temp
		return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			err := c.Snapshot(ctx, selection, func(records table.Lines) error {
				return printTable(s, wanted, func() table.Lines { return records })
			})
			if err != nil {
				return err
			}
			return checkKept(c, dataOf(columnsOf(wanted))...)
		})
	}
	return cmd
}

// since is the value of a flag: a point in time, or how long ago it was.
type since time.Time

// Type implements pflag.Value.
func (s *since) Type() string { return "TIME" }

func (s *since) String() string {
	if time.Time(*s).IsZero() {
		return ""
	}
	return time.Time(*s).Format(time.RFC3339)
}

// Set implements pflag.Value.
func (s *since) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*s = since(at)
		return nil
	}
	var ago human.Period
	if err := ago.Set(text); err != nil {
		return errors.New("want a time ago such as 7d or 12h, or a point in time such as 2026-11-28T10:00:00Z")
	}
	*s = since(time.Now().Add(-time.Duration(ago)))
	return nil
}

// tableFlags select the format, the columns and the rows of a table.
type tableFlags struct {
	flags   *pflag.FlagSet
	schema  *table.Schema
	format  string
	columns []string
	where   string
	sort    []string
	limit   uint64
	temp    string
	text    bool // on a terminal, the default format is text
}

// addTo declares the flags. They accept values that are valid for at least one of the
// schemas. addTo sets f.schema to the first one. The caller can replace f.schema before a
// call of f.table.
func (f *tableFlags) addTo(flags *pflag.FlagSet, schemas ...*table.Schema) {
	f.flags, f.schema = flags, schemas[0]
	choice(flags, &f.format, "format",
		"`FORMAT`: jsonl, csv (safe to open in a spreadsheet), parquet (typed columns) or text (for people)",
		string(table.JSONL), string(table.CSV), string(table.Parquet), string(table.Text))
	flags.StringSliceVar(&f.columns, "columns", nil, "print these `NAMES` only, as in url,status,title")
	flags.StringVar(&f.where, "where", "", "print only what this `CONDITION` selects, as in 'status >= 400 and url ~ /shop/'")
	flags.StringSliceVar(&f.sort, "sort", nil, "sort by these `COLUMNS`, as in -status,url; a minus means descending order, and empty values come last")
	flags.Uint64Var(&f.limit, "limit", 0, "print `N` records at most, with --sort the first ones of all; 0 means all")
	flags.StringVar(&f.temp, "temp", "", "`DIR` for temporary files (default the system's)")
	restrict.Check(flags, "sort", func(text string) error {
		return firstFault("want columns: %w", schemas, func(s *table.Schema) error {
			_, err := s.SortKey(text)
			return err
		})
	})
	restrict.Check(flags, "columns", func(text string) error {
		return firstFault("want columns: %w", schemas, func(s *table.Schema) error {
			_, err := s.Column(text)
			return err
		})
	})
	restrict.Check(flags, "where", func(text string) error {
		return firstFault("want a condition: %w", schemas, func(s *table.Schema) error {
			_, err := s.Condition(text)
			return err
		})
	})
}

// firstFault returns nil if at least one schema has no fault. Otherwise it returns the
// fault of the first schema.
func firstFault(format string, schemas []*table.Schema, fault func(*table.Schema) error) error {
	var first error
	for _, s := range schemas {
		err := fault(s)
		if err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf(format, err)
		}
	}
	return first
}

// plain reports whether the records are printed unchanged.
func (f *tableFlags) plain() bool {
	return f.format == string(table.JSONL) && len(f.columns)+len(f.sort) == 0 && f.where == "" && f.limit == 0
}

// table returns the table that the flags ask for.
func (f *tableFlags) table(s streams) (t table.Table, err error) {
	t.Schema, t.Format, t.Limit, t.Temp = f.schema, table.Format(f.format), f.limit, f.temp
	if f.flags.Changed("json") && t.Format != table.JSONL {
		return t, fmt.Errorf("--json is JSON lines, --format %s is not: leave one of them out", t.Format)
	}
	terminal := sanitize.IsTerminal(sanitize.Unwrap(s.out))
	if terminal && f.text && !f.flags.Changed("format") {
		t.Format = table.Text
	}
	if terminal && t.Format == table.Parquet {
		return t, errors.New("--format parquet is no text for a terminal: name a file with --out")
	}
	for _, name := range f.columns {
		c, err := f.schema.Column(name)
		if err != nil {
			return t, fmt.Errorf("--columns: %w", err)
		}
		if slices.ContainsFunc(t.Columns, func(other table.Column) bool { return other.Name == c.Name }) {
			return t, fmt.Errorf("--columns: column %s is named twice", c.Name)
		}
		t.Columns = append(t.Columns, c)
	}
	for _, name := range f.sort {
		key, err := f.schema.SortKey(name)
		if err != nil {
			return t, fmt.Errorf("--sort: %w", err)
		}
		t.Sort = append(t.Sort, key)
	}
	if f.where == "" {
		return t, nil
	}
	if t.Where, err = f.schema.Condition(f.where); err != nil {
		return t, fmt.Errorf("--where: %w", err)
	}
	return t, nil
}

// terminalWidth returns the number of columns of a terminal, 80 if they are not known, and 0 if w is no
// terminal.
func terminalWidth(w io.Writer) int {
	f, file := sanitize.Unwrap(w).(*os.File)
	if !file || !sanitize.IsTerminal(f) {
		return 0
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// columnsOf returns the names of the columns that a table was asked for by name.
func columnsOf(t table.Table) (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	for _, key := range t.Sort {
		names = append(names, key.Column.Name)
	}
	if t.Where != nil {
		names = append(names, t.Where.Columns()...)
	}
	return names
}

// printTable prints a table of records.
func printTable(s streams, t table.Table, records func() table.Lines) error {
	return t.Write(records, s.out)
}
