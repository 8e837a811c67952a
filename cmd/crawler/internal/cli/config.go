package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newConfig shows what a crawl with the same flags would use.
func newConfig(s streams) *cobra.Command {
	o := new(options)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config [flags of crawl]",
		Short: "Show every effective value of a crawl and where it came from",
		Long: `Show every effective value and where it came from. Later ones win: defaults,
the crawl's own settings (crawl.json), --config FILE, CRAWLER_* environment, flags.`,
	}
	addSections(cmd, o.flagSets())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && o.dir == "" && o.seeds == "" {
			if _, err := findDir(); err != nil {
				args = []string{"https://example.org/"} // no crawl here: show what a new one would have
			}
		} else if len(args) == 0 && o.seeds == "" {
			args = []string{"https://example.org/"}
		}
		l, c, _, err := resolve(o, cmd.Flags(), args)
		if err != nil {
			return err
		}
		if asJSON {
			return printConfigJSON(s, l)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "json" {
				return
			}
			fmt.Fprintf(s.out, "%-18s %-28s %s\n", f.Name, show(f), l.source(f.Name))
		})
		for _, h := range l.hosts {
			text, _ := json.Marshal(h)
			fmt.Fprintf(s.out, "%-18s %s\n", "hosts", text)
		}
		fmt.Fprintf(s.out, "%-18s %s\n", "canonical-form", shorten(c.canon.Form()))
		return nil
	}
	return cmd
}

func (l *layers) source(name string) string {
	if from, ok := l.from[name]; ok {
		return from
	}
	return "default"
}

func show(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ", ")
	}
	return f.Value.String()
}

func shorten(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

func printConfigJSON(s streams, l *layers) error {
	type value struct {
		Value  string `json:"value"`
		Source string `json:"source"`
	}
	all := make(map[string]value)
	l.flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != "json" {
			all[f.Name] = value{show(f), l.source(f.Name)}
		}
	})
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}
