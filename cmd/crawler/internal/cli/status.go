package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// status is what `crawler status --json` prints.
type status struct {
	Running  bool              `json:"running"`
	Stats    frontier.Stats    `json:"stats"`
	Progress *fetcher.Progress `json:"progress,omitempty"` // of the process that runs it
}

// newStatus says where a crawl stands.
func newStatus(s streams) *cobra.Command {
	var dir string
	var asJSON, recount, watch bool
	cmd := &cobra.Command{
		Use:   "status [--dir DIR] [--watch] [--audit] [--json]",
		Short: "Say where a crawl stands, running or not",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&recount, "audit", false, "count the books anew, each term from something else than its counter; reads everything")
	cmd.Flags().BoolVar(&watch, "watch", false, "while the crawl runs, say so again each second")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := existing(cmd.Context(), dir)
		if err != nil {
			return err
		}
		if watch && at.listens(cmd.Context()) {
			return watchStatus(cmd.Context(), at, s.out, asJSON)
		}
		if recount {
			return runAudit(cmd.Context(), at, s, asJSON)
		}
		var st status
		err = visitCrawl(cmd.Context(), at, s,
			func() error { return callControl(cmd.Context(), at.dir, "GET", "/status", nil, &st) },
			func(ses *session) error {
				st.Stats, err = ses.store.Stats(cmd.Context())
				return err
			})
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(s.out).Encode(st)
		}
		return st.print(s.out, at)
	}
	return cmd
}

// print says it for people.
func (st *status) print(w io.Writer, at place) error {
	r := at.newReport(st.Stats)
	r.End = fmt.Sprintf("%s, %s", stateOf(st.Running, st.Stats), human.Plural(st.Stats.Pages, "page"))
	if err := r.WriteSummary(w); err != nil {
		return err
	}
	f := st.Stats.Filter
	_, err := fmt.Fprintf(w, "  filter      %s of %s, %s, false-positive rate now %.2g\n", human.Commas(f.Keys),
		human.Plural(f.Capacity, "URL"), human.IBytes(f.Bytes), f.FPR)
	return err
}
