package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/human"
)

// ruleOptions are the flags that make a rule of crawler pause or crawler drop.
type ruleOptions struct{ host, class, depth, match, why string }

// addTo declares the flags; those of class and depth only if all is set.
func (f *ruleOptions) addTo(cmd *cobra.Command, all bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.host, "host", "", "only hosts whose key matches this `PATTERN`, such as '*.example.org'")
	flags.StringVar(&f.match, "match", "", "only URLs that this regular expression matches: `RE`")
	flags.StringVar(&f.why, "why", "", "`REASON`, for the history")
	if all {
		flags.StringVar(&f.class, "class", "", "only URLs of this `CLASS`: bulk, or the name of an exact class")
		flags.StringVar(&f.depth, "depth", "", "only URLs so many links away from a seed: `N..` means N or more")
	}
	for name, want := range map[string]string{"host": "a host key, in which * stands for any characters", "match": "a regular expression", "depth": "N.. with an N of 1 or more"} {
		if flags.Lookup(name) != nil {
			checkText(flags, name, want, func(text string) error {
				_, err := policy.ParseTarget(name + "=" + text)
				return err
			})
		}
	}
	checkText(flags, "why", "a line of text", func(text string) error {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("not a line")
		}
		return nil
	})
}

// given reports whether the flags select something.
func (f *ruleOptions) given() bool { return f.host+f.class+f.depth+f.match != "" }

// rule returns the rule of the flags.
func (f *ruleOptions) rule() (string, error) {
	var parts []string
	for _, part := range [][2]string{{"host", strings.ToLower(f.host)}, {"class", f.class}, {"depth", f.depth}, {"match", f.match}} {
		if part[1] != "" {
			parts = append(parts, part[0]+"="+part[1])
		}
	}
	rule := strings.Join(parts, " ")
	if strings.ContainsAny(f.host+f.class+f.depth, " ") {
		return "", usage(errors.New("--host, --class and --depth have no spaces"))
	}
	if _, err := policy.ParseTarget(rule); err != nil {
		return "", usage(err)
	}
	return rule, nil
}

// ruleFlags returns the flags of a rule.
func ruleFlags(rule string) string {
	var flags []string
	for rest := rule; rest != ""; {
		name, value, _ := strings.Cut(rest, "=")
		rest = ""
		if name != "match" {
			value, rest, _ = strings.Cut(value, " ")
		}
		flags = append(flags, "--"+name+" "+shellQuote(value))
	}
	return strings.Join(flags, " ")
}

// pause pauses what the flags select, or ends this pause.
func (f *ruleOptions) pause(ctx context.Context, s streams, c *attached, paused, running bool) error {
	rule, err := f.rule()
	if err != nil {
		return err
	}
	change := crawl.Change{Values: []string{"pause-=" + rule}, Who: whoAmI(), Why: f.why}
	if paused {
		change.Values[0] = "pause+=" + rule
	}
	changed, err := c.Change(ctx, change)
	if err != nil {
		return err
	}
	reached, err := c.Reach(ctx, rule)
	if err != nil {
		return err
	}
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	said := map[[2]bool]string{{true, false}: "paused", {true, true}: "was paused before", {false, true}: "was not paused by such a rule", {false, false}: "resumed"}[[2]bool{paused, changed.Same}]
	version := ""
	if !changed.Same {
		version = fmt.Sprintf(", version %d of the policy", changed.Version.Number)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s%s\n", c.at, rule, said, version)
	word := map[bool]string{true: "wait for '" + c.at.command("resume") + " " + ruleFlags(rule) + "'", false: "can be requested again"}[paused]
	if reached.URLs == 1 {
		word = strings.Replace(word, "wait for", "waits for", 1)
	}
	if paused || !changed.Same {
		printReach(&b, &reached, word)
	}
	for _, other := range st.Pauses {
		if !paused {
			fmt.Fprintf(&b, "still paused: %s\n", other)
		}
	}
	if !running {
		b.WriteString("the crawl is not running\n")
	}
	_, err = s.out.Write([]byte(b.String()))
	return err
}

// newDrop returns the command that drops waiting URLs.
func newDrop(s streams) *cobra.Command {
	var at target
	var f ruleOptions
	var dry bool
	var key string
	cmd := &cobra.Command{
		Use: "drop [--dir DIR | --redis URL --name NAME] [--host HOST] [--class CLASS]\n" +
			"    [--depth N..] [--match RE] [--why TEXT] [--dry-run | --key KEY]",
		Short: "Drop URLs that wait, and refuse them from now on",
		Long: `Drop URLs that wait: all that the flags select end with the outcome dropped, with a
record and without a request. The flags make a rule, which is kept in a new version
of the policy, so links and seeds that are found later and match are refused (reason
drop_rule). The command goes through the queue itself, which workers may do at the
same time. It can be stopped, and repeated. 'crawler retry --outcome dropped'
withdraws rules and brings the URLs back, and 'crawler set drop-=RULE' withdraws one.`,
		Example: `  crawler drop --host shop.example.org --dry-run
  crawler drop --match '/calendar/' --why 'a trap'
  crawler drop --depth 8..`,
		Args: cobra.NoArgs,
	}
	at.addTo(cmd)
	f.addTo(cmd, true)
	keyFlag(cmd.Flags(), &key, " within 24 h")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing, count the URLs")
	cmd.RunE = at.run(func(ctx context.Context, c *attached) error {
		if !f.given() {
			return usage(errors.New("want at least one of --host, --class, --depth and --match"))
		}
		rule, err := f.rule()
		if err != nil {
			return err
		}
		if dry && key != "" {
			return usage(errors.New("--dry-run takes no --key: it changes nothing"))
		}
		if key != "" {
			once, repeated, err := c.DropOnce(ctx, rule, whoAmI(), f.why, key)
			if err := sayRepeated(s, key, repeated, err); err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%s: drop %s, version %d of the policy\n%s of %s dropped\n", c.at, rule, once.Version,
				human.Plural(once.URLs, "URL"), human.Plural(once.Hosts, "host"))
			return err
		}
		changed, err := c.Change(ctx, crawl.Change{Values: []string{"drop+=" + rule}, Who: whoAmI(), Why: f.why, Dry: dry})
		if err != nil {
			return err
		}
		if dry {
			return c.at.printChange(s, true, &changed)
		}
		fmt.Fprintf(s.out, "%s: drop %s, version %d of the policy\n", c.at, rule, changed.Version.Number)
		dropped, err := f.drop(ctx, s, c, rule)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s of %s dropped\n", human.Plural(dropped.URLs, "URL"), human.Plural(dropped.Hosts, "host"))
		if err != nil {
			return err
		}
		left, err := c.Reach(ctx, rule)
		if err == nil && left.URLs > 0 {
			_, err = fmt.Fprintf(s.out, "%s left, which workers have or which wait for another attempt; they are dropped when their turn comes\n",
				human.Plural(left.URLs, "URL"))
		}
		return err
	})
	return cmd
}

// drop calls Handle.Drop, and prints the progress.
func (f *ruleOptions) drop(ctx context.Context, s streams, c *attached, rule string) (crawl.Dropped, error) {
	begun, err := c.Status(ctx)
	if err != nil {
		return crawl.Dropped{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !c.Running(ctx) && c.at.Redis == nil { // no other call can open the crawl meanwhile
		return c.Drop(ctx, rule)
	}
	var printing sync.WaitGroup
	defer printing.Wait()
	defer stop()
	printing.Go(func() {
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if st, err := c.Status(ctx); err == nil {
				n := st.Stats.Outcomes[frontier.Dropped] - begun.Stats.Outcomes[frontier.Dropped]
				fmt.Fprintf(s.err, "%s dropped so far, by all workers\n", human.Plural(n, "URL"))
			}
		}
	})
	return c.Drop(ctx, rule)
}
