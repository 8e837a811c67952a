package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	crawler "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/changes"
	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newDiff returns the command that compares the pages of two crawls, or of two rounds.
func newDiff(s streams) *cobra.Command {
	var crawl target
	var tables tableFlags
	var text string
	cmd := &cobra.Command{
		Use: "diff DIR1 DIR2 | [--dir DIR | --redis URL --name NAME] [--rounds A,B] [URL]\n" +
			"    [--format text|jsonl|csv|parquet] [--columns NAMES] [--where CONDITION] [--sort COLUMNS] [--limit N] [--out FILE]",
		Short: "Print what changed between two crawls, or between two rounds of one",
		Long: `Print the URLs that are new, gone, or have another status, title, canonical URL or
redirect target: in the crawl in DIR2, compared with the one in DIR1. With one crawl,
compare the ends of two of its rounds, by default its last two. A round above 0 begins
with crawler retry or --recrawl. With a URL, print each change of this page, with the
lines of its text that differ if the crawl keeps texts (--text). The exit code is 0,
whether or not there are changes.`,
		Example: `  crawler diff monday.crawl tuesday.crawl
  crawler diff --dir go.dev.crawl --format csv --where 'change ~ status'
  crawler diff --dir go.dev.crawl --rounds 0,2 --columns url,change
  crawler diff --dir go.dev.crawl https://go.dev/blog/`,
		Args: cobra.MaximumNArgs(2),
	}
	crawl.addTo(cmd)
	tables.addTo(cmd.Flags(), table.SchemaOf[changes.Change](), table.SchemaOf[changes.Revision]())
	tables.text = true
	cmd.Flags().StringVar(&text, "rounds", "", "compare the ends of these two `ROUNDS` of one crawl, as in 0,2")
	checkText(cmd.Flags(), "rounds", "two rounds, the earlier one first, such as 0,2", func(text string) error {
		_, err := parseRounds(text)
		return err
	})
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && strings.Contains(args[len(args)-1], "://") {
			return diffPage(cmd, s, &crawl, &tables, args, text)
		}
		wanted, err := tables.table(s)
		if err != nil {
			return usage(err)
		}
		print := func(rows iter.Seq2[changes.Change, error]) error {
			return printTable(s, wanted, func() table.Lines { return linesOf(rows) })
		}
		if len(args) < 2 {
			if len(args) == 1 {
				if cmd.Flags().Changed("dir") {
					return usage(errors.New("diff: one crawl is named twice, by --dir and by an argument: want two arguments, or one crawl"))
				}
				_ = cmd.Flags().Set("dir", args[0]) // any text is valid
			}
			return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
				return diffRounds(ctx, c, text, tables.temp, print)
			})
		}
		for _, name := range []string{"dir", "redis", "name", "rounds"} {
			if cmd.Flags().Changed(name) {
				return usage(fmt.Errorf("diff: two directories and --%s: want one or the other", name))
			}
		}
		return crawl.withBoth(cmd.Context(), args[0], args[1], func(ctx context.Context, one, other *attached) error {
			return records(ctx, one, tables.temp, func(before table.Lines) error {
				return records(ctx, other, tables.temp, func(after table.Lines) error {
					return changes.Between(before, after, tables.temp, print)
				})
			})
		})
	}
	return cmd
}

// records calls the function read with the records of all rounds of a crawl.
func records(ctx context.Context, c *attached, temp string, read func(table.Lines) error) error {
	return c.Snapshot(ctx, crawler.Selection{AllRounds: true, Once: true, Temp: temp}, read)
}

// diffRounds compares two rounds of a crawl. The text is the value of --rounds.
func diffRounds(ctx context.Context, c *attached, text, temp string, print func(iter.Seq2[changes.Change, error]) error) error {
	err := c.Snapshot(ctx, crawler.Selection{AllRounds: true, Temp: temp}, func(lines table.Lines) (err error) {
		rounds, _ := parseRounds(text) // checked before
		if text == "" {
			if rounds, err = changes.LastRounds(lines); err != nil {
				return err
			}
		}
		return rounds.Read(lines, temp, print)
	})
	if missing, is := errors.AsType[*changes.MissingRoundError](err); is {
		return &exitError{exitNotKept, fmt.Errorf("%s: %w; '%s' begins another round", c.at, missing, c.at.command("retry"))}
	}
	return err
}

// diffPage prints the changes of one page. The argument rounds is the value of --rounds.
func diffPage(cmd *cobra.Command, s streams, crawl *target, tables *tableFlags, args []string, rounds string) error {
	tables.schema = table.SchemaOf[changes.Revision]()
	wanted, err := tables.table(s)
	if err != nil {
		return usage(err)
	}
	if len(args) > 1 {
		if cmd.Flags().Changed("dir") {
			return usage(errors.New("diff: --dir and two arguments: want a URL only"))
		}
		_ = cmd.Flags().Set("dir", args[0]) // any text is valid
	}
	var of []uint32
	if rounds != "" {
		r, _ := parseRounds(rounds) // checked before
		of = []uint32{r.Before, r.After}
	}
	return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
		url, err := c.Canonical(ctx, args[len(args)-1])
		if err != nil {
			return err
		}
		visits := uint64(0)
		err = c.Snapshot(ctx, crawler.Selection{AllRounds: true, Once: true}, func(lines table.Lines) (err error) {
			visits, err = changes.Revisions(lines, url, of, tables.temp, func(all iter.Seq2[changes.Revision, error]) error {
				if wanted.Format == table.Text && len(wanted.Columns) == 0 && wanted.Where == nil && len(wanted.Sort) == 0 {
					return printRevisions(s, url, all, wanted.Limit)
				}
				return printTable(s, wanted, func() table.Lines { return linesOf(all) })
			})
			return err
		})
		if err == nil && visits == 0 {
			err = &exitError{exitNotKept, fmt.Errorf("%s: no record of %s; '%s %s' says why", c.at, url, c.at.command("explain"), shellQuote(url))}
		}
		return err
	})
}

// printRevisions prints at most limit revisions of a page for people; 0 means all.
func printRevisions(s streams, url string, all iter.Seq2[changes.Revision, error], limit uint64) error {
	fmt.Fprintln(s.out, human.Printable(url))
	n := uint64(0)
	for r, err := range all {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return nil
		}
		var b strings.Builder
		fmt.Fprintf(&b, "\n%s  round %d  %d  %s\n", r.At.UTC().Format(time.DateTime), r.Round, r.Status, human.Printable(r.Change))
		for line := range strings.Lines(r.Diff) {
			fmt.Fprintf(&b, "    %s\n", human.Printable(strings.TrimSuffix(line, "\n")))
		}
		if _, err := io.WriteString(s.out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// parseRounds parses the value of --rounds. An empty text is valid.
func parseRounds(text string) (r changes.Rounds, err error) {
	if text == "" {
		return r, nil
	}
	one, other, _ := strings.Cut(text, ",")
	before, err := strconv.ParseUint(one, 10, 19)
	after, err2 := strconv.ParseUint(other, 10, 19)
	if err = errors.Join(err, err2); err == nil && before >= after {
		err = errors.New("the first round is not the earlier one")
	}
	return changes.Rounds{Before: uint32(before), After: uint32(after)}, err
}

// withBoth opens Handles on the crawls in two directories, and calls fn with them.
func (t *target) withBoth(ctx context.Context, one, other string, fn func(ctx context.Context, one, other *attached) error) error {
	if err := t.adoptEnvironment(t.flags, postgresNames); err != nil {
		return usage(err)
	}
	database, err := t.database()
	if err != nil {
		return usage(err)
	}
	in := func(dir string) location {
		at := inDirectory(dir)
		at.Postgres = database
		return at
	}
	return in(one).with(ctx, func(ctx context.Context, first *attached) error {
		return in(other).with(ctx, func(ctx context.Context, second *attached) error { return fn(ctx, first, second) })
	})
}

// linesOf returns rows as lines of JSON.
func linesOf[T any](rows iter.Seq2[T, error]) table.Lines {
	return func(yield func([]byte, error) bool) {
		for row, err := range rows {
			var line []byte
			if err == nil {
				line, err = json.Marshal(row)
			}
			if !yield(append(line, '\n'), err) || err != nil {
				return
			}
		}
	}
}
