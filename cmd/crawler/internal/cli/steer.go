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
		var before, running bool
		err = visitCrawl(cmd.Context(), at, s,
			func() error {
				running = true
				return callControl(cmd.Context(), at.dir, "POST", fmt.Sprintf("/pause?on=%t", paused), nil, &before)
			},
			func(ses *session) error {
				_, running = at.home.(*sharedHome) // as far as can be known: it may have workers
				before, err = ses.storePause(cmd.Context(), paused)
				return err
			})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.out, at.paused(paused, before, running))
		return err
	}
	return cmd
}

// paused says what a pause, or the end of one, means for a crawl; before is
// whether it was paused before.
func (at place) paused(paused, before, running bool) string {
	said := map[[2]bool]string{
		{true, false}: "paused", {true, true}: "was paused before", {false, true}: "resumed", {false, false}: "was not paused",
	}[[2]bool{paused, before}]
	said = at.title() + ": " + said
	switch {
	case paused && running:
		return fmt.Sprintf("%s; requests under way finish, '%s' goes on", said, at.command("resume"))
	case paused:
		return fmt.Sprintf("%s; it is not running, and when it is run it waits for '%s'", said, at.command("resume"))
	case running:
		return said + "; it requests pages"
	}
	return fmt.Sprintf("%s; it is not running, '%s' goes on", said, at.command("crawl"))
}

func (ses *session) handlePause(w http.ResponseWriter, r *http.Request) {
	paused, err := strconv.ParseBool(r.URL.Query().Get("on"))
	var before bool
	if err == nil {
		before, err = ses.pause(r.Context(), paused)
	}
	reply(w, before, err)
}

// pause holds a running crawl, or lets it go on: the store keeps that, and the
// worker goes by it at once. It returns whether the crawl was paused before.
func (ses *session) pause(ctx context.Context, paused bool) (before bool, err error) {
	if before, err = ses.storePause(ctx, paused); err != nil {
		return before, err
	}
	ses.crawl.Pause(paused)
	ses.monitor.poke()
	return before, nil
}

// storePause has the store keep whether the crawl is paused.
func (ses *session) storePause(ctx context.Context, paused bool) (before bool, err error) {
	stats, err := ses.store.Counters(ctx)
	if err != nil {
		return false, err
	}
	return stats.Paused, ses.store.Pause(ctx, paused)
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
