package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newConfig returns the command that prints the settings which a crawl with the same
// flags would use.
func newConfig(s streams) *cobra.Command {
	o := new(options)
	var asJSON, history bool
	var p *plan
	cmd := &cobra.Command{
		Use:   "config [SEED...] [flags of crawl] [--history] [--json]",
		Short: "Show every effective value of a crawl and where it came from",
		Long: `Show what 'crawler crawl' with the same arguments would use, and where each value
came from. Later ones win: default, the crawl's own settings (crawl.json, or
redis), --config FILE, CRAWLER_* environment, flag.`,
		Example: `  crawler config                        of the crawl in this directory, or of a new one
  crawler config --config polite.yaml https://go.dev/`,
	}
	addSections(cmd, o.newFlags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&history, "history", false, "print the changes of 'crawler set' instead")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		p, err = o.resolve(cmd.Context(), cmd.Flags(), args)
		if errors.Is(err, errNoCrawl) { // show the settings of a new crawl
			o.dirFlag = "HOST.crawl"
			p, err = o.resolve(cmd.Context(), cmd.Flags(), args)
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !history {
			return p.print(s, asJSON)
		}
		return p.at.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			versions, err := c.History(ctx)
			if err != nil {
				return err
			}
			return printHistory(s, asJSON, c.at, versions)
		})
	}
	return cmd
}

// effective is the value of a flag and its source.
type effective struct {
	Name   string `json:"-"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// effective returns the values of all flags, in the order of the help text.
func (p *plan) effective() (all []effective) {
	p.layers.flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || slices.Contains([]string{"help", "json", "history"}, f.Name) {
			return
		}
		e := effective{f.Name, show(f), "default"}
		if from, ok := p.layers.from[f.Name]; ok {
			e.Source = from
		}
		switch f.Name {
		case "dir":
			if e.Value = p.at.Dir; e.Value == "" {
				e.Value = filepath.Join(p.name+".crawl", "HOST-N")
			}
		case "redis":
			if e.Value != "" {
				e.Value = p.at.Redis.Where()
			}
		case "postgres":
			if db, err := p.database(); err == nil && db != nil {
				e.Value = db.Where()
			}
		case "header":
			var shown []string
			for _, header := range f.Value.(pflag.SliceValue).GetSlice() {
				text, _ := withoutSecret("header", header)
				shown = append(shown, text)
			}
			e.Value = strings.Join(shown, ", ")
		case "events":
			e.Value, _ = withoutSecret("events", p.events.to)
		case "proxy":
			e.Value, _ = withoutSecret("proxy", p.settings.Proxy)
		}
		all = append(all, e)
	})
	return all
}

func (p *plan) print(s streams, asJSON bool) error {
	flags, hosts, groups := make(map[string]effective), []string{}, []any{}
	var table, more strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, e := range p.effective() {
		flags[e.Name] = e
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, cmp.Or(e.Value, "-"), e.Source)
	}
	for _, h := range p.settings.Hosts {
		hosts = append(hosts, h.String())
		fmt.Fprintf(&more, "hosts: %s\n", h.String())
	}
	for _, g := range p.settings.Fields {
		if g.URL != "" { // the others are in the table
			groups = append(groups, map[string]any{"url": g.URL, "fields": g.Fields})
			fmt.Fprintf(&more, "fields of %s: %s\n", g.URL, strings.Join(g.Fields, ", "))
		}
	}
	if asJSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"flags": flags, "hosts": hosts, "fields": groups, "canonical-form": p.crawl.Form()})
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%s%scanonical form: %s\n", &table, &more, p.crawl.Form())
	return err
}
