package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// watchShared prints the state of a crawl in Redis once a second until ctx ends. It
// cannot show what limits the crawl, because only the workers have these gauges.
func watchShared(ctx context.Context, c *attached, s streams, asJSON bool) error {
	release, err := c.Keep(ctx)
	if err != nil {
		return c.at.explain(err)
	}
	meter, enc := new(report.Meter), json.NewEncoder(s.out)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for answered := time.Now(); err == nil && ctx.Err() == nil; {
		var st report.Status
		now := time.Now()
		switch st, err = c.Status(ctx); {
		case ctx.Err() != nil:
		case errors.Is(err, frontier.ErrUnavailable):
			fmt.Fprintf(s.err, "Redis has not answered for %v\n", now.Sub(answered).Round(time.Second))
			err = nil
		case err != nil:
		case asJSON:
			answered, err = now, enc.Encode(st)
		default:
			answered, err = now, nil
			r := meter.Read(report.Sample{Time: now, Pages: st.Stats.Pages})
			_, err = fmt.Fprintf(s.out, "%s  %s, %.1f/s, %s queued, %s leased, %s, %s\n", now.Format(time.TimeOnly),
				human.Plural(st.Stats.Pages, "page"), r.PagesPerSecond, human.Commas(st.Stats.Queued), human.Commas(st.Stats.Leased),
				human.Plural(st.Stats.Hosts, "host"), human.Plural(uint64(len(st.Shared.Workers)), "worker")+pausedWord(st.Stats))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	return c.at.explain(errors.Join(err, release()))
}
