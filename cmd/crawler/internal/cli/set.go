package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newSet returns the command that changes the policy of a crawl.
func newSet(s streams) *cobra.Command {
	var at target
	var why, from, crash string
	var renewed []string
	var dry bool
	cmd := &cobra.Command{
		Use: "set [--dir DIR | --redis URL --name NAME] [--why TEXT]\n" +
			"    [--from VERSION] [--dry-run] NAME=VALUE...",
		Short: "Change settings of a crawl, running or not",
		Long: `Change settings of a crawl, running or not, for all its workers. The names are
those of the flags of 'crawler crawl'. The process that runs the crawl in DIR
obeys the change at once, and each worker of a crawl in Redis within 5 s.
'crawler config --history' lists all changes.

NAME=VALUE given several times makes a list, NAME+=VALUE adds to a list, and
NAME= makes it empty. What differs for some hosts: 'hosts:PATTERN=delay 5s,
concurrency 2, budget 1000, robots ignore, recrawl 1d, weight 5' for one pattern,
'hosts:PATTERN=' removes it, and hosts=@FILE takes all from the "hosts:" of a config file.

` + whoChanges(),
		Example: `  crawler set delay=5s --why 'the owner asked'
  crawler set 'exclude+=/calendar/' --dry-run
  crawler set 'hosts:*.example.org=delay 10s'`,
	}
	at.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&why, "why", "", "`REASON`, for the history")
	flags.StringVar(&from, "from", "", "fail unless the newest version is this `VERSION`; 0 before the first change")
	checkText(flags, "from", "the number of a version", func(text string) error {
		_, err := strconv.ParseUint(text, 10, 64)
		return err
	})
	checkText(flags, "why", "a line of text", func(text string) error {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("not a line")
		}
		return nil
	})
	flags.StringArrayVar(&renewed, "new-secret", nil, "forget the digest of the secret header `NAME`; the next run stores that of its value")
	flags.BoolVar(&dry, "dry-run", false, "change nothing, say what the change would do")
	addCrash(flags, &crash)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		crashAt(crash)
		if len(args)+len(renewed) == 0 {
			return usage(errors.New("nothing to set: want NAME=VALUE, or --new-secret"))
		}
		change := crawl.Change{NewSecrets: renewed, Who: whoAmI(), Why: why, Dry: dry}
		if from != "" {
			number, err := strconv.ParseUint(from, 10, 64)
			if err != nil {
				return usage(err)
			}
			change.From = &number
		}
		for _, arg := range args {
			text, err := withHostsFile(arg)
			if err != nil {
				return usage(err)
			}
			change.Values = append(change.Values, text)
		}
		return at.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			changed, err := c.Change(ctx, change)
			if err != nil {
				return err
			}
			return errors.Join(c.at.printChange(s, dry, &changed), noteUnknownHosts(ctx, s, c.Handle, args))
		})
	}
	return cmd
}

// noteUnknownHosts says which of the hosts that got a setting of their own the crawl does not know: often their names differ by www.
func noteUnknownHosts(ctx context.Context, s streams, h *crawl.Handle, args []string) error {
	known := func(host string) (bool, error) {
		found, err := h.Hosts(ctx, crawl.HostQuery{Host: host, Most: 1})
		return len(found.Hosts) > 0, err
	}
	for _, arg := range args {
		pattern, value, _ := strings.Cut(strings.TrimPrefix(arg, "hosts:"), "=")
		if !strings.HasPrefix(arg, "hosts:") || value == "" || strings.Contains(pattern, "*") {
			continue
		}
		if is, err := known(pattern); is || err != nil {
			return err
		}
		other := "www." + pattern
		if bare, is := strings.CutPrefix(pattern, "www."); is {
			other = bare
		}
		note := "note: the crawl has found no URL of " + pattern + " so far"
		if is, err := known(other); err != nil {
			return err
		} else if is {
			note += "; it has URLs of " + other + ", which is another host"
		}
		fmt.Fprintln(s.out, note)
	}
	return nil
}

// whoChanges lists the settings by who may change them.
func whoChanges() string {
	var b strings.Builder
	for _, group := range []struct {
		title string
		who   settings.Who
	}{
		{"This command changes", settings.Live},
		{"Fixed when the crawl is created", settings.Created},
		{"Set by each run of each worker", settings.Run},
	} {
		names := settings.Names(func(row *settings.Row) bool { return row.Who == group.who })
		line := group.title + ":"
		for i, name := range names {
			if i < len(names)-1 {
				name += ","
			}
			if len(line)+1+len(name) > helpWidth {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + name
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("Of headers that may be secret, only names and digests are stored: each run has\nthem from its --header. --new-secret NAME lets runs have another value.")
	return b.String()
}

// whoAmI names the person who runs this command, as user@host.
func whoAmI() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return cmp.Or(name, "unknown") + "@" + cmp.Or(host, "unknown")
}

// withHostsFile replaces the name of a config file in hosts=@FILE with the hosts in that file.
func withHostsFile(arg string) (string, error) {
	name, is := strings.CutPrefix(arg, "hosts=@")
	if !is {
		return arg, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	var file struct {
		Hosts yaml.Node `yaml:"hosts"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if file.Hosts.IsZero() {
		return "", fmt.Errorf("%s has no \"hosts:\"", name)
	}
	var l layers
	if err := l.readHosts(name, &file.Hosts); err != nil {
		return "", err
	}
	for _, h := range l.hosts {
		if len(h.Headers) > 0 {
			return "", fmt.Errorf("%s: hosts: %s: headers are not stored: each run has them from its --config", name, h.Pattern)
		}
	}
	stored, err := json.Marshal(l.hosts)
	return "hosts=" + string(stored), err
}

// printChange says what a change did, or would do.
func (at location) printChange(s streams, dry bool, c *crawl.Changed) error {
	var b strings.Builder
	v := c.Version
	switch {
	case c.Same && v == nil:
		fmt.Fprintf(&b, "%s: the crawl has these values already\n", at)
	case c.Same:
		fmt.Fprintf(&b, "%s: the crawl has these values already, in version %d of its policy\n", at, v.Number)
	case dry:
		fmt.Fprintf(&b, "%s: version %d of the policy would have\n", at, v.Number)
	default:
		fmt.Fprintf(&b, "%s: version %d of the policy\n", at, v.Number)
	}
	if !c.Same {
		for _, e := range v.Changes {
			fmt.Fprintf(&b, "  %s\n", edited(&e))
		}
	}
	if len(c.Stricter) > 0 {
		fmt.Fprintf(&b, "stricter: %s; a waiting URL that a rule refuses now is dropped without a request when its turn comes\n", strings.Join(c.Stricter, ", "))
	}
	if c.Reach != nil {
		printReach(&b, c.Reach, "would be dropped")
	}
	if len(c.Looser) > 0 {
		again := "links that were refused before are not offered again, as the crawl keeps none (--links)"
		if c.Links {
			again = "to offer refused links again: " + at.command("seed") + " --from-links --match RE"
		}
		fmt.Fprintf(&b, "looser: %s; links found from now on follow it; %s\n", strings.Join(c.Looser, ", "), again)
	}
	_, err := s.out.Write([]byte(b.String()))
	return err
}

// printReach prints how many waiting URLs something concerns, by host. The argument what says what happens to them.
func printReach(b *strings.Builder, r *crawl.Reach, what string) {
	fmt.Fprintf(b, "%s %s\n", human.Plural(r.URLs, "waiting URL"), what)
	for _, h := range r.Hosts {
		fmt.Fprintf(b, "  %s: %s, such as %s\n", h.Host, human.Commas(h.URLs), strings.Join(h.Examples, " "))
	}
}

// edited describes the change of a setting.
func edited(e *crawl.Edit) string {
	return fmt.Sprintf("%s: %s -> %s", e.Name, cmp.Or(settings.WithDelays(e.From), "empty"), cmp.Or(settings.WithDelays(e.To), "empty"))
}

// explainLive returns the error of a run that sets settings of the policy to other values.
func (at location) explainLive(live *crawl.LiveError) error {
	line := at.command("set")
	for _, d := range live.Differ {
		for _, text := range settings.Find(d.Name).Assignment(d.Given) {
			line += " " + shellQuote(text)
		}
	}
	goOn := "resume"
	if at.Redis != nil {
		goOn = "join it"
	}
	return usage(fmt.Errorf("%s has other settings:\n%s\nleave them out to %s, or change them for all its workers:\n  %s", at,
		differences(&frontier.SettingsError{Differ: live.Differ}), goOn, line))
}

// printHistory prints the versions of the policy of a crawl, the newest one last.
func printHistory(s streams, asJSON bool, at location, versions []crawl.PolicyVersion) error {
	if asJSON {
		enc := json.NewEncoder(s.out)
		for _, v := range versions {
			if err := enc.Encode(v); err != nil {
				return err
			}
		}
		return nil
	}
	if len(versions) == 0 {
		_, err := fmt.Fprintf(s.out, "%s: the policy was never changed\n", at)
		return err
	}
	var b strings.Builder
	for _, v := range versions {
		fmt.Fprintf(&b, "version %d  %s  %s", v.Number, v.Time.Format("2006-01-02 15:04:05 MST"), v.Who)
		if v.Why != "" {
			b.WriteString("  " + v.Why)
		}
		b.WriteString("\n")
		for _, e := range v.Changes {
			fmt.Fprintf(&b, "  %s\n", edited(&e))
		}
	}
	_, err := s.out.Write([]byte(b.String()))
	return err
}
