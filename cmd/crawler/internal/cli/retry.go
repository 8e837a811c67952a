package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/restrict"
	crawler "github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// retryFlags select the URLs that crawler retry queues again.
type retryFlags struct {
	host, status, where, match string
	outcome, temp, key         string
	since                      time.Duration
}

// newRetry returns the command that queues failed and finished URLs again.
func newRetry(s streams) *cobra.Command {
	var crawl target
	var f retryFlags
	cmd := &cobra.Command{
		Use: "retry [--dir DIR | --redis URL --name NAME] [--host HOST]\n" +
			"    [--outcome OUTCOME] [--since TIME] [--status CODES] [--where CONDITION]\n" +
			"    [--match RE] [--key KEY]",
		Short: "Queue failed or chosen URLs again, in a new round",
		Long: `Queue URLs again, in their next round: all that have failed, or with --status,
--where or --match those whose latest record these flags select, also finished ones
such as a 404. The next run fetches them. URLs that wait already stay as they are,
so the command can be repeated. With --outcome dropped, drop rules are withdrawn
first: all of them, or with --host those of just this host. Finished URLs of a
crawl in Redis cannot be queued again: docs/guide/recheck.md shows what works
there.`,
		Example: `  crawler retry --dir go.dev.crawl
  crawler retry --dir go.dev.crawl --outcome network --since 2h
  crawler retry --dir go.dev.crawl --status 404,500-599
  crawler retry --dir go.dev.crawl --where 'fetched_at < 2026-01-31' --match '/doc/'`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.host, "host", "", "only those of this `HOST` key")
	flags.StringVar(&f.outcome, "outcome", "", "only those that failed with this `OUTCOME`, such as network or dropped")
	flags.DurationVar(&f.since, "since", 0, "only those that ended at most this `TIME` ago, as in 90m")
	checkText(flags, "outcome", "an outcome of failed URLs: "+strings.Join(failedOutcomes(), ", "), func(text string) error {
		if !slices.Contains(failedOutcomes(), text) {
			return errors.New("not an outcome of failed URLs")
		}
		return nil
	})
	keyFlag(flags, &f.key, " within 24 h; not with --status, --where and --match")
	flags.StringVar(&f.status, "status", "", "those whose latest record has one of these status `CODES`, as in 404,500-599")
	flags.StringVar(&f.where, "where", "", "those whose latest record this `CONDITION` selects, as in 'outcome = ok and depth < 2'")
	flags.StringVar(&f.match, "match", "", "those whose URL this regular expression matches: `RE`")
	flags.StringVar(&f.temp, "temp", "", "`DIR` for temporary files (default the system's)")
	checkText(flags, "status", "status codes and ranges of them, such as 404,500-599", func(text string) error {
		_, err := statusCondition(text)
		return err
	})
	restrict.Check(flags, "where", func(text string) error {
		return firstFault("want a condition: %w", []*table.Schema{table.Records()}, func(s *table.Schema) error {
			_, err := s.Condition(text)
			return err
		})
	})
	checkText(flags, "match", "a regular expression", func(text string) error {
		_, err := regexp.Compile(text)
		return err
	})
	cmd.RunE = crawl.run(func(ctx context.Context, c *attached) error {
		f.host = strings.ToLower(f.host)
		if f.status+f.where+f.match == "" {
			of := crawler.Failures{Host: f.host, Outcome: frontier.Outcome(f.outcome), Within: f.since}
			var done crawler.Retried
			var err error
			if f.key == "" {
				done, err = c.Retry(ctx, of, whoAmI())
			} else {
				var repeated bool
				done, repeated, err = c.RetryOnce(ctx, of, whoAmI(), f.key)
				err = sayRepeated(s, f.key, repeated, err)
			}
			if err == nil {
				err = printRetried(s, &done)
			}
			return err
		}
		if f.key != "" {
			return usage(errors.New("--status, --where and --match take no --key: a repeat queues no URL twice in a round"))
		}
		sum, err := f.recheck(ctx, c)
		if errors.Is(err, crawler.ErrNoRecheck) {
			return usage(fmt.Errorf("--status, --where and --match: %w. Begin a second crawl of the listed URLs, "+
				"as docs/guide/recheck.md shows; without these flags, failed URLs are queued again", err))
		}
		if err == nil || sum.Queued > 0 {
			_, printed := fmt.Fprintf(s.out, "%s queued again, %s\n", human.Plural(uint64(sum.Queued), "URL"), waiting(sum.Waiting))
			err = errors.Join(err, printed)
		}
		return err
	})
	return cmd
}

// failedOutcomes returns the outcomes of failed URLs.
func failedOutcomes() (names []string) {
	for _, o := range frontier.Outcomes {
		if o.State == frontier.Failed {
			names = append(names, string(o.Outcome))
		}
	}
	return names
}

func printRetried(s streams, r *crawler.Retried) error {
	var b strings.Builder
	if r.Withdrawn != nil {
		fmt.Fprintf(&b, "withdrawn in version %d of the policy: drop %s\n", r.Version, strings.Join(r.Withdrawn, ", drop "))
	}
	fmt.Fprintf(&b, "%s queued again\n", human.Plural(uint64(r.URLs), "URL"))
	if r.Left != nil {
		fmt.Fprintf(&b, "what other rules select is dropped again: drop %s; 'crawler set drop-=RULE' withdraws one\n", strings.Join(r.Left, ", drop "))
	}
	_, err := s.out.Write([]byte(b.String()))
	return err
}

// waiting says how many of the chosen URLs were not queued.
func waiting(n int) string {
	if n == 1 {
		return "1 waits already"
	}
	return human.Commas(uint64(n)) + " wait already"
}

// recheck queues the URLs whose latest records are selected.
func (f *retryFlags) recheck(ctx context.Context, c *attached) (sum crawler.Rechecked, err error) {
	schema := table.Records()
	where, err := f.condition(schema)
	if err != nil {
		return sum, usage(err)
	}
	match, err := regexp.Compile(f.match)
	if err != nil {
		return sum, usage(fmt.Errorf("--match: %w", err))
	}
	if c.at.Redis != nil {
		return sum, crawler.ErrNoRecheck
	}
	err = c.Snapshot(ctx, crawler.Selection{Once: true, Temp: f.temp}, func(latest table.Lines) (err error) {
		sum, err = c.Recheck(ctx, f.selected(schema.Select(latest, where), match))
		return err
	})
	return sum, err
}

// condition returns the condition of --status and --where, or nil if both are missing.
func (f *retryFlags) condition(schema *table.Schema) (*table.Condition, error) {
	var parts []string
	if f.where != "" {
		if _, err := schema.Condition(f.where); err != nil {
			return nil, fmt.Errorf("--where: %w", err)
		}
		parts = append(parts, "("+f.where+" )")
	}
	if f.status != "" {
		text, err := statusCondition(f.status)
		if err != nil {
			return nil, fmt.Errorf("--status: %w", err)
		}
		parts = append(parts, "("+text+")")
	}
	if f.outcome != "" {
		parts = append(parts, "(outcome = "+f.outcome+")")
	}
	if f.since > 0 {
		parts = append(parts, "(fetched_at >= "+time.Now().UTC().Add(-f.since).Format(time.RFC3339)+")")
	}
	if parts == nil {
		return nil, nil
	}
	return schema.Condition(strings.Join(parts, " and "))
}

// selected parses the records, and yields those that --host and --match select.
func (f *retryFlags) selected(lines table.Lines, match *regexp.Regexp) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for line, err := range lines {
			var r record.Record
			if err == nil {
				err = json.Unmarshal(line, &r)
			}
			if err == nil && (f.host != "" && r.Host != f.host || !match.MatchString(r.URL)) {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// statusCondition returns the condition that selects the status codes in a list such as 404,500-599.
func statusCondition(list string) (string, error) {
	var parts []string
	for text := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(text), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 10)
		to, err2 := strconv.ParseUint(last, 10, 10)
		if err := errors.Join(err, err2); err != nil || from > to || to > 999 {
			return "", fmt.Errorf("%q is no status code and no range of them", text)
		}
		parts = append(parts, fmt.Sprintf("status >= %d and status <= %d", from, to))
	}
	return strings.Join(parts, " or "), nil
}
