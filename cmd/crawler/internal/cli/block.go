package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newBlock returns the command that blocks URLs.
func newBlock(s streams) *cobra.Command {
	var at target
	var f ruleOptions
	var crash string
	b := crawl.Block{Who: whoAmI()}
	cmd := &cobra.Command{
		Use: "block [--dir DIR | --redis URL --name NAME] [--erase | --undo] [--why TEXT] [--dry-run]\n" +
			"    (URL... | [--host HOST] [--match RE])",
		Short: "Never request URLs again, and hide their records",
		Long: `Block URLs, for example because their owner asks for it: they are never requested
again, links to them are refused (reason block_rule), and those that wait are
dropped. Their records are hidden from all commands, exports and events, and relays
send an event page.withdrawn for each of them. The rules are in a new version of the
policy, with --why and who made it.

With --erase, the policy keeps fingerprints instead of the URLs, and void lines of
the same length take the place of the records in closed record files. The command
prints what it cannot reach. It can be stopped, and repeated. --undo ends a block.`,
		Example: `  crawler block https://a.test/private --why 'asked by its author' --dry-run
  crawler block --host old.a.test --erase
  crawler block --undo https://a.test/private`,
	}
	at.addTo(cmd)
	f.addTo(cmd, false)
	flags := cmd.Flags()
	flags.BoolVar(&b.Erase, "erase", false, "keep fingerprints instead of the URLs, and erase records in closed files")
	flags.BoolVar(&b.Undo, "undo", false, "end a block; what was erased stays so")
	flags.BoolVar(&b.Dry, "dry-run", false, "change nothing, say what would be blocked")
	addCrash(flags, &crash)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		crashAt(crash)
		return at.with(cmd.Context(), func(ctx context.Context, c *attached) (err error) {
			switch {
			case len(args) > 0 == f.given():
				return usage(errors.New("want URLs, or --host and --match"))
			case b.Erase && b.Undo:
				return usage(errors.New("--undo takes no --erase"))
			case f.given():
				if b.Rule, err = f.rule(); err != nil {
					return err
				}
			}
			b.URLs, b.Why = args, f.why
			r, err := c.Block(ctx, b)
			if len(r.Rules) > 0 || err == nil {
				printBlocked(s, c, &b, &r)
			}
			return err
		})
	}
	return cmd
}

// printBlocked prints what a block has done, or would do.
func printBlocked(s streams, c *attached, b *crawl.Block, r *crawl.Blocked) {
	var out strings.Builder
	did := func(word string) string {
		if b.Dry {
			return "would be " + word
		}
		return word
	}
	switch {
	case b.Undo && r.Same:
		fmt.Fprintf(&out, "%s: not blocked by such a rule\n", c.at)
	case b.Undo:
		fmt.Fprintf(&out, "%s: %s %s: version %d of the policy\n", c.at, human.Plural(uint64(len(r.Rules)), "rule"), did("removed"), r.Version)
		out.WriteString("new links to the URLs are followed again; 'crawler retry --outcome dropped' queues those that were dropped\n")
	default:
		fmt.Fprintf(&out, "%s: %s, version %d of the policy\n", c.at, did("blocked"), r.Version)
		for _, rule := range r.Rules {
			fmt.Fprintf(&out, "  %s\n", rule)
		}
		fmt.Fprintf(&out, "%s that %s %s\n", human.Plural(r.Waiting, "URL"), map[bool]string{true: "waits", false: "wait"}[r.Waiting == 1], did("dropped"))
		fmt.Fprintf(&out, "%s %s\n", human.Plural(r.Hidden, "record"), did("hidden"))
		if r.Letters > 0 {
			fmt.Fprintf(&out, "%s of relays %s\n", human.Plural(r.Letters, "dead letter"), did("removed"))
		}
		if b.Erase {
			fmt.Fprintf(&out, "%s of closed files %s\n", human.Plural(r.Erased.Closed, "line"), did("erased"))
		}
		for _, left := range r.Left {
			fmt.Fprintf(&out, "not reached: %s\n", left)
		}
	}
	_, _ = s.out.Write([]byte(out.String()))
}
