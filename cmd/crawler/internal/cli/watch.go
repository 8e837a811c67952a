package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
)

// watchStatus shows a running crawl once a second until the crawl or ctx ends. On a
// terminal it shows a view. Otherwise it prints lines.
func watchStatus(ctx context.Context, c *attached, w io.Writer, asJSON bool) error {
	if asJSON {
		return watchJSON(ctx, c, w)
	}
	log := slog.New(slog.NewTextHandler(w, nil))
	draw := func(r report.Reading) { view.LogLine(log, r) }
	if live, terminal := view.Open(w, os.Getenv); terminal {
		draw = live.Draw
		defer live.Clear()
	}
	meter := new(report.Meter)
	for sample, err := range c.Watch(ctx) {
		if err != nil {
			return err
		}
		draw(meter.Read(sample))
	}
	return nil
}

// watchJSON prints a status each second.
func watchJSON(ctx context.Context, c *attached, w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, err := range c.Watch(ctx) {
		var st report.Status
		if err == nil {
			st, err = c.Status(ctx)
		}
		switch {
		case ctx.Err() != nil || err != nil && !c.Running(ctx): // the crawl has just ended
			return nil
		case err != nil:
			return err
		}
		if err := enc.Encode(st); err != nil {
			return err
		}
	}
	return nil
}

// watchShared prints the state of a crawl in Redis once a second until ctx ends. It
// cannot show what limits the crawl, because only the workers measure that.
func watchShared(ctx context.Context, c *attached, s streams, asJSON bool) error {
	release, err := c.Keep(ctx)
	if err != nil {
		return err
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
			paused := ""
			if st.Stats.Paused {
				paused = ", paused"
			}
			r := meter.Read(report.Sample{Time: now, Pages: st.Stats.Pages})
			_, err = fmt.Fprintf(s.out, "%s  %s, %.1f/s, %s queued, %s leased, %s, %s\n", now.Format(time.TimeOnly),
				human.Plural(st.Stats.Pages, "page"), r.PagesPerSecond, human.Commas(st.Stats.Queued), human.Commas(st.Stats.Leased),
				human.Plural(st.Stats.Hosts, "host"), human.Plural(uint64(len(st.Shared.Workers)), "worker")+paused)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, release())
}
