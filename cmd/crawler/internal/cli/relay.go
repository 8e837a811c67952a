package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/human"
)

// newRelay returns the command that delivers the events of a crawl to another program.
func newRelay(s streams) *cobra.Command {
	var crawl target
	f := eventFlags{}
	var drain, quiet bool
	var logFormat, crash string
	cmd := &cobra.Command{
		Use:   "relay --to URL [--relay NAME] [--dir DIR | --redis URL --name NAME] [flags]",
		Short: "Deliver what a crawl finds to another program, as events",
		Long: `Deliver what a crawl finds to another program: an event for each record, a
CloudEvent, at least once and with an id that every repeat of it has. The crawl
may run or not. The command goes on until it is stopped, and the same command
goes on where it ended; with --drain it ends when all is delivered.

A relay has a name, and keeps its place in the crawl under it. Relays of other
names read the same crawl. What the other program refuses for good is kept: see
crawler relay dead. If the program does not answer, events are delivered later,
and the crawl does not wait.`,
		Example: `  crawler relay --to - --dir go.dev.crawl --drain | jq .subject
  crawler relay --to https://index.example.org/events --webhook-secret-file secret
  crawler relay --to nats://10.0.0.7/pages --relay index --types page.done --from now
  crawler relay status --dir go.dev.crawl`,
		Args: cobra.NoArgs,
	}
	crawl.addTo(cmd)
	flags := cmd.Flags()
	flags.AddFlagSet(f.declare(f.addTo))
	flags.BoolVar(&drain, "drain", false, "end when everything is delivered that the crawl has found so far")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print warnings and errors only")
	choice(flags, &logFormat, "log-format", "`FORMAT`: text or json", "text", "json")
	addCrash(flags, &crash)
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		crashAt(crash)
		return crawl.with(cmd.Context(), func(ctx context.Context, c *attached) error {
			r := relaying{attached: c, drain: drain, notices: s.err, logged: time.Now()}
			level := "info"
			if quiet {
				r.notices, level = io.Discard, "warn"
			}
			r.log = newLogger(s.err, level, logFormat)
			return r.run(ctx, &f, s)
		})
	}
	cmd.AddCommand(newRelayStatus(s), newDead(s), newGiveUp(s))
	return cmd
}

// relaying is a relay that this command runs.
type relaying struct {
	*attached
	drain   bool
	notices io.Writer
	log     *slog.Logger

	mu     sync.Mutex
	state  events.State
	seen   bool // whether state was set
	logged time.Time
}

// run delivers events until ctx ends or, with --drain, until all are delivered.
func (r *relaying) run(ctx context.Context, f *eventFlags, s streams) (err error) {
	config, err := f.config(ctx, s.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, config.Sink.Close()) }()
	config.Logger = r.log
	fmt.Fprintf(r.notices, "relay %s: delivering %s to %s; Ctrl-C stops, the same command goes on\n", config.Name, r.at, f.shown())
	config.OnState = r.note
	err = r.Relay(ctx, config, r.drain)
	r.sumUp(config.Name)
	if err != nil {
		return r.explainRelay(config.Name, err)
	}
	if ctx.Err() != nil {
		return &exitError{signalCode(ctx), nil}
	}
	return nil
}

// explainRelay adds an exit code and advice for the user to the error of a relay.
func (r *relaying) explainRelay(name string, err error) error {
	if errors.Is(err, events.ErrSuperseded) {
		return &exitError{exitFailed, fmt.Errorf("relay %s of %s: another process has taken it over, because this one was silent for too long", name, r.at)}
	}
	if errors.Is(err, events.ErrLocked) {
		return &exitError{exitFailed, fmt.Errorf("relay %s of %s: another process runs it. Stop that one, or choose another name with --relay, "+
			"which delivers everything again", name, r.at)}
	}
	if gone, is := errors.AsType[*events.GoneError](err); is {
		return &exitError{exitFailed, fmt.Errorf("relay %s of %s: %s is missing: put it back, or begin a relay of another name behind it, "+
			"with --relay NAME --from TIME", name, r.at, gone.Range)}
	}
	return r.at.explain(err)
}

// note stores the state of the relay, and logs it every logEvery.
func (r *relaying) note(state events.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.seen = state, true
	if time.Since(r.logged) < logEvery {
		return
	}
	r.logged = time.Now()
	r.log.Info("delivering", slog.Uint64("delivered", state.Delivered), slog.Uint64("duplicates", state.Duplicates), slog.Uint64("behind", state.Lag.Events),
		slog.Uint64("behind_bytes", state.Lag.Bytes), slog.Uint64("dead", state.Dead))
}

// sumUp prints how many events were delivered, are left, and were refused.
func (r *relaying) sumUp(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen { // the relay ended before it had read a state
		return
	}
	behind := human.Commas(r.state.Lag.Events)
	if r.state.Lag.More {
		behind = "more than " + behind
	}
	fmt.Fprintf(r.notices, "relay %s: %s delivered, %s behind, %s\n", name, human.Plural(r.state.Delivered, "event"),
		behind, human.Plural(r.state.Dead, "dead letter"))
	if n := r.state.Duplicates; n > 0 {
		fmt.Fprintf(r.notices, "%s of them were duplicates: the stream knew their ids, and did not store them again. If it was purged, wait\n"+
			"until its duplicate window is over, and deliver them with a relay of another name\n", human.Commas(n))
	}
	for _, warning := range r.state.Warnings {
		fmt.Fprintf(r.notices, "warning: %s\n", warning)
	}
	if r.state.Dead > 0 {
		fmt.Fprintf(r.notices, "'%s --relay %s' lists what was refused\n", r.at.command("relay dead list"), name)
	}
}
