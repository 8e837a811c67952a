package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	crawler "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/links"
	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/internal/human"
)

// linkFlags select the report that crawler links prints.
type linkFlags struct {
	broken, all, redirects, canonical bool

	to, graph string
	minHops   int
	tables    tableFlags
}

// newLinks returns the command that prints the links of a crawl, or a report about them.
func newLinks(s streams) *cobra.Command {
	var crawl target
	var f linkFlags
	cmd := &cobra.Command{
		Use: "links [--broken [--all] | --to URL | --redirects [--min-hops N] | --canonical | --graph csv|gexf] [--dir DIR | --redis URL --name NAME]\n" +
			"    [--format jsonl|csv|parquet] [--columns NAMES] [--where CONDITION] [--sort COLUMNS] [--limit N] [--out FILE]",
		Short: "Print the links of a crawl: all, broken ones, those to a URL, or the graph",
		Long: `Print the links that a crawl with --links kept: source, target, text, rel and
kind. Or a report: --broken, targets without a page, the number of pages that link
to each, and three of them; with --all, each of these links; --to, links
to one URL; --graph, all links for other programs. --redirects and --canonical
need no links: they print chains of redirects, and pages whose canonical URL does
not agree. On a terminal the output is a table, elsewhere it is lines of JSON.
docs/reference/links.md has all columns.`,
		Example: `  crawler links --broken --dir go.dev.crawl
  crawler links --broken --all --dir go.dev.crawl --format csv --columns source,target,status
  crawler links --broken --dir go.dev.crawl --where 'status = 404 or status = 410' --sort target
  crawler links --to https://go.dev/doc/ --dir go.dev.crawl
  crawler links --graph gexf --dir go.dev.crawl --out go.gexf`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.broken, "broken", false, "print targets without a page: pages that link to them, status, target, sources, why")
	flags.BoolVar(&f.all, "all", false, "with --broken, print each link to a target without a page")
	flags.StringVar(&f.to, "to", "", "print links to `URL`")
	checkText(flags, "to", "an http or https URL, such as https://go.dev/doc/", func(text string) error {
		if scheme, _, _ := strings.Cut(strings.ToLower(text), "://"); scheme != "http" && scheme != "https" {
			return errors.New("not a URL")
		}
		return nil
	})
	flags.BoolVar(&f.redirects, "redirects", false, "print chains and loops of redirects, and redirects to URLs without a page")
	restrict.Number(flags, &f.minHops, "min-hops", 2, "with --redirects, print chains of at least `N` redirects; 1 prints single ones, too",
		1, math.MaxInt, "a whole number of 1 or more")
	flags.BoolVar(&f.canonical, "canonical", false, "print pages whose canonical URL has no page, redirects or names another")
	choice(flags, &f.graph, "graph", "print the graph as `FORMAT`: csv, with Source and Target, or gexf", "none", "csv", "gexf")
	f.tables.addTo(flags, table.SchemaOf[links.Link](), table.SchemaOf[links.Broken](), table.SchemaOf[links.BrokenLink](),
		table.SchemaOf[links.Chain](), table.SchemaOf[links.Conflict]())
	f.tables.text = true
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var given []string
		for _, name := range []string{"broken", "to", "redirects", "canonical", "graph"} {
			if flags.Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usage(fmt.Errorf("%s: want one of them", strings.Join(given, " and ")))
		}
		if f.all && !f.broken {
			return usage(errors.New("--all prints each broken link: give --broken, too"))
		}
		if flags.Changed("min-hops") && !f.redirects {
			return usage(errors.New("--min-hops is about chains of redirects: give --redirects, too"))
		}
		if f.graph != "none" && !f.tables.plain() {
			return usage(errors.New("--graph has a format of its own: leave out --format, --columns, --where, --sort and --limit"))
		}
		return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			err := f.print(ctx, s, c)
			switch {
			case errors.Is(err, crawler.ErrNoLinks):
				return &exitError{exitNotKept, err}
			case err != nil || f.redirects || f.canonical:
				return err
			}
			return checkKept(c, &linkData)
		})
	}
	return cmd
}

func (f *linkFlags) print(ctx context.Context, s streams, c *attached) error {
	source := c.Links(ctx)
	switch {
	case f.graph == "csv":
		return source.WriteCSV(s.out)
	case f.graph == "gexf":
		return source.WriteGEXF(s.out)
	case f.broken && f.all:
		return printRows(f, s, "link", source.BrokenLinks)
	case f.broken:
		return f.printBroken(s, source)
	case f.redirects:
		return printRows(f, s, "chain", func() iter.Seq2[links.Chain, error] { return source.Chains(f.minHops) })
	case f.canonical:
		return printRows(f, s, "page", source.Conflicts)
	case f.to == "":
		return printRows(f, s, "link", source.Links)
	}
	wanted, err := c.Canonical(ctx, f.to)
	if err != nil {
		return usage(err)
	}
	return printRows(f, s, "link", func() iter.Seq2[links.Link, error] { return source.To(wanted) })
}

// printBroken prints the targets without a page, by default those first to which most pages link.
func (f *linkFlags) printBroken(s streams, source links.Source) error {
	if len(f.tables.sort) == 0 {
		f.tables.sort = []string{"-pages", "target"}
	}
	wanted, err := tableOf[links.Broken](f, s)
	if err != nil {
		return usage(err)
	}
	wanted.Sum = "pages"
	wanted.Total = func(targets, links uint64) string {
		return human.Plural(targets, "target") + " without a page, " + human.Plural(links, "link")
	}
	return printTable(s, wanted, func() table.Lines { return linesOf(source.Broken()) })
}

// printRows prints the rows of a report as a table. Each row is one of the things that the argument
// thing names.
func printRows[T any](f *linkFlags, s streams, thing string, rows func() iter.Seq2[T, error]) error {
	wanted, err := tableOf[T](f, s)
	if err != nil {
		return usage(err)
	}
	wanted.Total = func(rows, _ uint64) string { return human.Plural(rows, thing) }
	return printTable(s, wanted, func() table.Lines { return linesOf(rows()) })
}

// tableOf returns the table that the flags ask for, of rows of the type T.
func tableOf[T any](f *linkFlags, s streams) (table.Table, error) {
	f.tables.schema = table.SchemaOf[T]()
	wanted, err := f.tables.table(s)
	wanted.Width = terminalWidth(s.out)
	return wanted, err
}
