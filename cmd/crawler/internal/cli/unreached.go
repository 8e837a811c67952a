package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// lastError is the newest failed attempt of this process, for those who look.
func lastError(p fetcher.Progress) *report.LastError { return (*report.LastError)(p.LastError) }

// noneReached reports whether no seed has been reached so far and nothing can be
// tried now: no page and no robots.txt came, to this worker or to another one.
func noneReached(p fetcher.Progress, stats frontier.Stats) bool {
	waits := stats.Leased == 0 || p.Hosts > 0 // no other worker has a host just now
	return p.Stuck && !p.Answered && p.LastError != nil && waits && stats.Pages+stats.Done == 0
}

// warnUnreached tells people what their seeds fail with, when the first attempts
// have failed rather than when the last one has.
func warnUnreached(w io.Writer, why *report.LastError) {
	fmt.Fprintf(w, "no seed could be reached so far: %v\n%s; trying on (--retries, --backoff), Ctrl-C stops\n", why, checkSeeds)
}

const checkSeeds = "check the seeds' names, ports and certificates, and this machine's network"

// noneReached reports whether a run ended without an answer of any seed's host.
func (r *result) noneReached() bool {
	if r.stats.Pages > 0 || r.end != fetcher.Empty && r.end != endTime {
		return false
	}
	finished := uint64(0)
	for _, n := range r.stats.Outcomes {
		finished += n
	}
	failed := r.stats.Outcomes[frontier.Network] + r.stats.Outcomes[frontier.HostDead]
	p := r.crawl.Progress()
	return failed == finished && (failed > 0 || !p.Answered && p.LastError != nil)
}

// errUnreached is the message of exit code 4.
func (r *result) errUnreached(ctx context.Context) error {
	why := ""
	if last := lastError(r.crawl.Progress()); last != nil {
		why = ": " + last.String()
	} else if cause := r.causeOfSeed(ctx); cause != "" {
		why = ": " + cause
	}
	advice := checkSeeds
	if r.stats.Failed > 0 {
		advice += fmt.Sprintf("; '%s' queues those that failed again", r.command("retry"))
	}
	return errors.Join(fmt.Errorf("no seed could be reached%s", why), errors.New(advice))
}

// causeOfSeed is why the first seed of the command line failed, in an earlier run
// or with another worker; empty: that is not known.
func (r *result) causeOfSeed(ctx context.Context) string {
	args := r.flags.Args()
	if len(args) == 0 {
		return ""
	}
	e, err := r.explain(ctx, args[0], false)
	switch {
	case err != nil:
		return ""
	case e.Record != nil && e.Record.Error != "":
		return e.Record.Error
	case e.Robots != nil && e.Robots.Cause != "":
		return "robots.txt: " + e.Robots.Cause
	}
	return e.HostFailure
}
