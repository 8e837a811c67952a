package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
	"github.com/bloomfrontier/crawler/crawl/report"
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
			return c.at.explain(err)
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
			return c.at.explain(err)
		}
		if err := enc.Encode(st); err != nil {
			return err
		}
	}
	return nil
}
