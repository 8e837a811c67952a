package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// status is what `crawler status --json` prints.
type status struct {
	Running  bool              `json:"running"`
	Stats    frontier.Stats    `json:"stats"`
	Progress *fetcher.Progress `json:"progress,omitempty"` // of the process that runs it
	Shared   *sharing          `json:"shared,omitempty"`
	Exact    *report.ExactKeys `json:"exact,omitempty"` // keys of an exact set in Postgres
}

// newStatus says where a crawl stands.
func newStatus(s streams) *cobra.Command {
	var crawl target
	var asJSON, recount, watch bool
	cmd := &cobra.Command{
		Use:   "status [--dir DIR | --redis URL --name NAME] [--watch] [--audit] [--json] [--out FILE]",
		Short: "Say where a crawl stands, running or not",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	crawl.addTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&recount, "audit", false, "count the books anew, each term from something else than its counter; reads everything")
	cmd.Flags().BoolVar(&watch, "watch", false, "while the crawl runs, say so again each second")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		switch {
		case watch && at.listens(cmd.Context()):
			return watchStatus(cmd.Context(), at, s.out, asJSON)
		case watch && at.dir == "":
			return watchShared(cmd.Context(), at, s, asJSON)
		}
		if recount {
			return runAudit(cmd.Context(), at, s, asJSON)
		}
		var st status
		err = lookAtCrawl(cmd.Context(), at, s,
			func() error { return callControl(cmd.Context(), at.dir, "GET", "/status", nil, &st) },
			func(ses *session) error {
				st, err = ses.status(cmd.Context())
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

// status is where a crawl stands of which this process is no worker.
func (ses *session) status(ctx context.Context) (st status, err error) {
	if st.Stats, err = ses.store.Stats(ctx); err != nil {
		return st, err
	}
	if st.Exact, err = ses.store.exactKeys(ctx); err != nil {
		return st, err
	}
	st.Shared, err = ses.store.sharing(ctx)
	st.Running = st.Shared != nil && len(st.Shared.Workers) > 0
	return st, err
}

// print says it for people.
func (st *status) print(w io.Writer, at place) error {
	r := at.newReport(st.Stats)
	r.Exact = exactOf(st.Stats, st.Exact)
	if st.Progress != nil {
		r.LastError = lastError(*st.Progress)
	}
	r.End = fmt.Sprintf("%s, %s", stateOf(st.Running, st.Stats), human.Plural(st.Stats.Pages, "page"))
	if err := r.WriteSummary(w); err != nil {
		return err
	}
	f := st.Stats.Filter
	if _, err := fmt.Fprintf(w, "  filter      %s of %s, %s, false-positive rate now %.2g\n", human.Commas(f.Keys),
		human.Plural(f.Capacity, "URL"), human.IBytes(f.Bytes), f.FPR); err != nil || st.Shared == nil {
		return err
	}
	return st.Shared.print(w)
}

func (sh *sharing) print(w io.Writer) error {
	for _, who := range sh.Workers {
		_, err := fmt.Fprintf(w, "  worker      %s: holds %s, looks after %s, since %s\n", who.Name,
			human.Plural(uint64(who.Leases), "host"), human.Plural(uint64(who.Partitions), "partition"), who.Started.Format(time.DateTime))
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "  acknowledged and lost: %s\n", human.Commas(sh.Lost))
	return err
}

// pausedWord is what a line about a crawl that is paused ends with.
func pausedWord(stats frontier.Stats) string {
	if stats.Paused {
		return ", paused"
	}
	return ""
}
