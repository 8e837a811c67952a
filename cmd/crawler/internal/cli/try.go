package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/bloomfrontier/crawler/crawl/settings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/seeds"
)

// newTry returns the command that prints what a crawl would extract from one page.
func newTry(s streams) *cobra.Command {
	o := new(options)
	var asJSON bool
	var url string
	cmd := &cobra.Command{
		Use:   "try URL|FILE [--field NAME=SELECTOR...] [--text] [flags of crawl] [--json]",
		Short: "Show what a crawl would take from one page",
		Long: `Show what a crawl would take from one page: each field with its value, or why it
has none. The page is a URL, which is requested once (robots.txt first), an HTML
file, or - for stdin. All flags of crawl that are about fields and requests work,
and --config FILE.`,
		Example: `  crawler try https://shop.example/p/1 --field 'price=.price | number' --field 'links[]=a@href'
  crawler try page.html --config shop.yaml --url https://shop.example/p/1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want one URL or file", len(args))
			}
			return nil
		},
	}
	own := pflag.NewFlagSet("try", pflag.ContinueOnError)
	own.StringVar(&url, "url", "http://localhost/", "treat a file as the page at `URL`")
	own.BoolVar(&asJSON, "json", false, "print JSON")
	shown := []section{{title: "The page and the answer", flags: own}}
	for _, sec := range o.newFlags() {
		switch sec.title {
		case settings.Data, settings.Requests:
			shown = append(shown, sec)
		default: // the config file can contain other flags of a crawl
			cmd.Flags().AddFlagSet(sec.flags)
			sec.flags.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
		}
	}
	addSections(cmd, shown)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := o.try(cmd, args[0], url, s)
		switch {
		case err != nil:
			return err
		case asJSON:
			return json.NewEncoder(s.out).Encode(trialJSON(t))
		}
		return printTrial(s.out, t)
	}
	return cmd
}

// try extracts data from the page that an argument names.
func (o *options) try(cmd *cobra.Command, page, url string, s streams) (*crawl.Trial, error) {
	l, err := readLayers(cmd.Context(), cmd.Flags(), os.Environ())
	if err != nil {
		return nil, usage(err)
	}
	p := &plan{options: o, layers: l}
	config := p.config()
	if len(config.Settings.Fields) == 0 && !config.Settings.Text {
		return nil, usage(errors.New("nothing is asked for: name a --field, or --text"))
	}
	t, err := p.tryPage(cmd.Context(), config, page, url, s)
	if _, faulty := errors.AsType[*crawl.ConfigError](err); faulty {
		err = usage(p.faults(err))
	}
	return t, err
}

// tryPage extracts data from a page: stdin, a file or a URL.
func (*plan) tryPage(ctx context.Context, config crawl.Config, page, url string, s streams) (_ *crawl.Trial, err error) {
	var body []byte
	if page == "-" {
		body, err = io.ReadAll(seeds.Interruptible(ctx, s.in))
	} else if _, missing := os.Stat(page); missing == nil {
		body, err = seeds.ReadFile(ctx, page)
	} else {
		return crawl.Try(ctx, config, page)
	}
	if err != nil {
		return nil, err
	}
	return crawl.TryHTML(ctx, config, body, url)
}

// trialJSON returns the value that --json prints: parts of the record, and the reasons
// why fields have no value.
func trialJSON(t *crawl.Trial) any {
	r := &t.Record
	why := make(map[string]string)
	for _, f := range t.Fields {
		if f.Why != "" {
			why[f.Name] = f.Why
		}
	}
	return struct {
		URL        string            `json:"url"`
		Status     int               `json:"status"`
		Title      string            `json:"title,omitempty"`
		Error      string            `json:"error,omitempty"`
		Lang       string            `json:"lang,omitempty"`
		Author     string            `json:"author,omitempty"`
		Published  string            `json:"published,omitempty"`
		Incomplete []string          `json:"incomplete,omitempty"`
		Cut        []string          `json:"cut,omitempty"`
		Text       string            `json:"text,omitempty"`
		Fields     json.RawMessage   `json:"fields,omitempty"`
		Why        map[string]string `json:"why"`
	}{r.URL, r.Status, r.Title, r.Error, r.Lang, r.Author, r.Published, r.Incomplete, r.Cut, r.Text, r.Fields, why}
}

// printTrial prints a trial for people.
func printTrial(w io.Writer, t *crawl.Trial) error {
	r := &t.Record
	fmt.Fprintf(w, "%s: status %d, %s, %d bytes\n", r.URL, r.Status, strings.TrimSpace(r.ContentType+" "+r.Charset), r.Bytes)
	if r.Error != "" {
		fmt.Fprintln(w, r.Error)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range t.Fields {
		switch {
		case len(f.Values) == 0 && f.Required:
			fmt.Fprintf(table, "%s\t-\trequired, but %s\n", f.Name, f.Why)
		case len(f.Values) == 0:
			fmt.Fprintf(table, "%s\t-\t%s\n", f.Name, f.Why)
		case f.All:
			for i, value := range f.Values {
				fmt.Fprintf(table, "%s[%d]\t%s\n", f.Name, i, value)
			}
		default:
			fmt.Fprintf(table, "%s\t%s\n", f.Name, f.Values[0])
		}
	}
	for _, named := range [][2]string{{"lang", r.Lang}, {"author", r.Author}, {"published", r.Published}} {
		if named[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", named[0], named[1])
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Text != "" {
		fmt.Fprintf(w, "\n%s\n", r.Text)
	}
	if len(r.Cut) > 0 {
		fmt.Fprintf(w, "cut: %s\n", strings.Join(r.Cut, ", "))
	}
	return nil
}
