package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher"
)

// warnUnreached prints why seeds fail. It is called after the first failed attempts, so
// the user does not have to wait for the last one.
func warnUnreached(w io.Writer, why *fetcher.LastError) {
	fmt.Fprintf(w, "no seed could be reached so far: %v\n%s; trying on (--retries, --backoff), Ctrl-C stops\n", why, checkSeeds)
}

const checkSeeds = "check the seeds' names, ports and certificates, and this machine's network"

// unreached returns the error of a run in which no seed answered, with advice for the user.
func (r *running) unreached(ctx context.Context, result *crawl.Result) error {
	why := result.Unreached
	if result.Report.LastError == nil {
		if cause := r.causeOfSeed(ctx); cause != "" {
			why = fmt.Errorf("%w: %s", why, cause)
		}
	}
	advice := checkSeeds
	for cause, help := range map[string]string{
		"does not look like a TLS handshake": "this port does not speak TLS: begin the seed with http://",
		"tls: failed to verify certificate":  "--ca FILE trusts the authority of the certificate, --insecure-host HOST does not verify it",
		"no such host":                       "the name server says that there is no such name: check how it is written",
	} {
		if strings.Contains(why.Error(), cause) {
			advice = help
		}
	}
	if result.Stats.Failed > 0 {
		advice += fmt.Sprintf("; '%s' queues those that failed again", r.plan.at.command("retry"))
	}
	return errors.Join(why, errors.New(advice))
}

// causeOfSeed returns why the first seed of the command line failed in an earlier run or
// in another worker. It returns "" if the cause is not known.
func (r *running) causeOfSeed(ctx context.Context) string {
	if r.plan.layers.flags.NArg() == 0 {
		return ""
	}
	e, err := r.crawl.Explain(ctx, r.plan.layers.flags.Arg(0))
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
