package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
)

// newPause keeps a crawl from requesting anything.
func newPause(s streams) *cobra.Command {
	return newPausing(s, true, &cobra.Command{
		Use:   "pause [--dir DIR | --redis URL --name NAME]",
		Short: "Start no more requests, until resume",
		Long: `Start no more requests, until resume. Those under way finish. A crawl that is
not running stays paused when it is run.`,
	})
}

// newResume ends a pause.
func newResume(s streams) *cobra.Command {
	return newPausing(s, false, &cobra.Command{
		Use:   "resume [--dir DIR | --redis URL --name NAME]",
		Short: "End a pause",
	})
}

func newPausing(s streams, paused bool, cmd *cobra.Command) *cobra.Command {
	var crawl target
	cmd.Args, cmd.DisableFlagsInUseLine = cobra.NoArgs, true
	crawl.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := crawl.existing(cmd.Context())
		if err != nil {
			return err
		}
		var done bool
		return visitCrawl(cmd.Context(), at, s,
			func() error {
				return callControl(cmd.Context(), at.dir, "POST", fmt.Sprintf("/pause?on=%t", paused), nil, &done)
			},
			func(ses *session) error { return ses.store.Pause(cmd.Context(), paused) })
	}
	return cmd
}

func (ses *session) handlePause(w http.ResponseWriter, r *http.Request) {
	paused, err := strconv.ParseBool(r.URL.Query().Get("on"))
	if err == nil {
		err = ses.pause(r.Context(), paused)
	}
	reply(w, paused, err)
}

// pause holds a running crawl, or lets it go on: the store keeps that, and the
// worker goes by it at once.
func (ses *session) pause(ctx context.Context, paused bool) error {
	if err := ses.store.Pause(ctx, paused); err != nil {
		return err
	}
	ses.crawl.Pause(paused)
	ses.monitor.poke()
	return nil
}

// newStop ends a running crawl as Ctrl-C does.
func newStop(s streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "stop [--dir DIR]",
		Short: "Stop a running crawl, as Ctrl-C does",
		Long: `Stop a running crawl, as Ctrl-C does: what is under way finishes, nothing is
lost, and the command returns when the crawl has ended.`,
		Args: cobra.NoArgs,

		DisableFlagsInUseLine: true,
	}
	addDir(cmd, &dir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := existing(cmd.Context(), dir)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if !at.listens(ctx) {
			fmt.Fprintf(s.out, "%s: not running\n", at.title())
			return nil
		}
		var stopping bool
		if err := callControl(ctx, at.dir, "POST", "/stop", nil, &stopping); err != nil {
			return &exitError{exitFailed, err}
		}
		return awaitEnd(ctx, at)
	}
	return cmd
}

func (ses *session) handleStop(w http.ResponseWriter, _ *http.Request) {
	ses.stop(errStopped)
	reply(w, true, nil)
}
