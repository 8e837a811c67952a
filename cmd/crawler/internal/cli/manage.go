package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

func recordsIn(dir string) string { return filepath.Join(dir, "pages.jsonl") }

// newSeed adds seeds to a crawl, running or not.
func newSeed(s streams) *cobra.Command {
	var dir, file string
	cmd := &cobra.Command{
		Use:   "seed [--dir DIR] [--seeds FILE] [SEED...]",
		Short: "Add seeds to a crawl, running or not",

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVar(&file, "seeds", "", "read seeds from `FILE`, one a line, .gz too; - is stdin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if len(args) == 0 && file == "" {
			return usage(errors.New("no seeds: name a URL or --seeds FILE"))
		}
		dir, err := existing(dir)
		if err != nil {
			return err
		}
		seeds, err := newSeedReader(ctx, args, file, s.in)
		if err != nil {
			return usage(err)
		}
		defer seeds.close()
		var counts seedCounts
		err = visitCrawl(cmd.Context(), dir, s,
			func() error {
				counts, err = feed(ctx, seeds, remoteOffer(dir), s.err)
				return err
			},
			func(ses *session) error {
				counts, err = feed(ctx, seeds, ses.offer, s.err)
				return err
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%d added, %d known, %d refused\n", counts.added, counts.known, counts.refused)
		if counts.added+counts.known == 0 && counts.refused > 0 {
			return &exitError{exitFailed, nil}
		}
		return nil
	}
	return cmd
}

// newRetry offers failed URLs again.
func newRetry(s streams) *cobra.Command {
	var dir, host string
	cmd := &cobra.Command{
		Use:   "retry [--dir DIR] [--host HOST]",
		Short: "Offer failed URLs again, in a new round",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVar(&host, "host", "", "only those of this `HOST` key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := existing(dir)
		if err != nil {
			return err
		}
		host, n := strings.ToLower(host), 0
		err = visitCrawl(cmd.Context(), dir, s,
			func() error {
				return callControl(cmd.Context(), dir, "POST", "/retry?host="+url.QueryEscape(host), nil, &n)
			},
			func(ses *session) error {
				n, err = ses.store.Retry(cmd.Context(), host)
				return err
			})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s queued again\n", human.Plural(uint64(n), "URL"))
		return nil
	}
	return cmd
}

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
		dir, err := existing(dir)
		if err != nil {
			return err
		}
		if watch && listens(cmd.Context(), dir) {
			return watchStatus(cmd.Context(), dir, s.out, asJSON)
		}
		if recount {
			return runAudit(cmd.Context(), dir, s, asJSON)
		}
		var st status
		err = visitCrawl(cmd.Context(), dir, s,
			func() error { return callControl(cmd.Context(), dir, "GET", "/status", nil, &st) },
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
		return st.print(s.out, dir)
	}
	return cmd
}

// print says it for people.
func (st *status) print(w io.Writer, dir string) error {
	r := newStoreReport(dir, st.Stats)
	r.End = fmt.Sprintf("%s, %s", stateOf(st.Running, st.Stats), human.Plural(st.Stats.Pages, "page"))
	if err := r.WriteSummary(w); err != nil {
		return err
	}
	f := st.Stats.Filter
	_, err := fmt.Fprintf(w, "  filter      %s of %s, %s, false-positive rate now %.2g\n", human.Commas(f.Keys),
		human.Plural(f.Capacity, "URL"), human.IBytes(f.Bytes), f.FPR)
	return err
}

// newRebuild makes a lost filter anew.
func newRebuild(s streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "rebuild [--dir DIR]",
		Short: "Make the filter anew from queue and outcomes, after its file was lost",
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := existing(dir)
		if err != nil {
			return err
		}
		ses, err := openStored(dir, s, localstore.Rebuild)
		if err != nil {
			return err
		}
		stats, err := ses.store.Stats(cmd.Context())
		if err = errors.Join(err, ses.close()); err != nil {
			return &exitError{exitFailed, err}
		}
		fmt.Fprintf(s.out, "the filter of %s holds %s URLs again\n", dir, human.Commas(stats.Filter.Keys))
		return nil
	}
	return cmd
}

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "the crawl's `DIR` (default CRAWLER_DIR, or the crawl in the current directory)")
	complete(cmd)
}

// existing returns the directory of an existing crawl.
func existing(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv(envName("dir"))
	}
	if dir == "" {
		var err error
		if dir, err = findDir(); errors.Is(err, errNoCrawl) {
			return "", usage(errors.New("no crawl in this directory: name one with --dir"))
		} else if err != nil {
			return "", usage(err)
		}
	}
	stored, err := localstore.StoredSettings(nil, dir)
	if err != nil {
		return "", &exitError{exitFailed, err}
	}
	if stored == nil {
		return "", usage(fmt.Errorf("no crawl in %s", dir))
	}
	return dir, nil
}

// openStored opens an existing crawl with its own settings. Which addresses its
// runs may request is theirs to say: here nothing is requested.
func openStored(dir string, s streams, open func(localstore.Config) (*localstore.Store, error)) (*session, error) {
	o := new(options)
	cmd := &cobra.Command{}
	addSections(cmd, o.newFlags())
	o.private = true
	p := &plan{options: o, dir: dir}
	var err error
	if p.layers, err = readLayers(cmd.Flags(), nil); err != nil {
		return nil, usage(err)
	}
	if p.stored, err = localstore.StoredSettings(nil, dir); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	if err := p.adopt(p.stored); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	if p.checked, err = o.check(); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return openSession(p, s, open)
}

// visitCrawl asks the process that runs the crawl, or opens the crawl when
// nobody does.
func visitCrawl(ctx context.Context, dir string, s streams, remote func() error, local func(*session) error) error {
	return visitStored(ctx, dir, s, localstore.Open, remote, local)
}

// openFunc opens a store.
type openFunc func(localstore.Config) (*localstore.Store, error)

// visitStored is visitCrawl with a way of its own to open the crawl.
func visitStored(ctx context.Context, dir string, s streams, open openFunc, remote func() error, local func(*session) error) error {
	if conn, err := dialControl(ctx, dir); err == nil {
		_ = conn.Close()
		if err := remote(); err != nil {
			return &exitError{exitFailed, err}
		}
		return nil
	}
	ses, err := openStored(dir, s, open)
	if err != nil {
		return err
	}
	if err := errors.Join(local(ses), ses.close()); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

// remoteOffer offers seeds to the process that runs the crawl.
func remoteOffer(dir string) offerFunc {
	return func(ctx context.Context, seeds []string, check bool) (replies []seedReply, err error) {
		body := map[string]any{"seeds": seeds, "check": check}
		return replies, callControl(ctx, dir, "POST", "/seed", body, &replies)
	}
}
