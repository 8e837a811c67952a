package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// watchStatus shows a running crawl once a second until it ends or ctx does: as
// a view on a terminal, as lines elsewhere.
func watchStatus(ctx context.Context, at place, w io.Writer, asJSON bool) error {
	show, end := watcher(ctx, at.dir, w, asJSON)
	defer end()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		switch err := show(); {
		case err == nil:
		case ctx.Err() != nil || !at.listens(ctx): // it has just ended
			return nil
		default:
			return &exitError{exitFailed, err}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// watcher returns what shows the crawl that runs in dir as it is now, and what
// leaves the terminal as it was.
func watcher(ctx context.Context, dir string, w io.Writer, asJSON bool) (show func() error, end func()) {
	end = func() {}
	if asJSON {
		enc := json.NewEncoder(w)
		return func() error {
			var st status
			if err := callControl(ctx, dir, "GET", "/status", nil, &st); err != nil {
				return err
			}
			return enc.Encode(st)
		}, end
	}
	log := slog.New(slog.NewTextHandler(w, nil))
	draw := func(r report.Reading) { view.LogLine(log, r) }
	if live, terminal := view.Open(w, os.Getenv); terminal {
		draw, end = live.Draw, live.Clear
	}
	meter := new(report.Meter)
	return func() error {
		var s report.Sample
		if err := callControl(ctx, dir, "GET", "/sample", nil, &s); err != nil {
			return err
		}
		draw(meter.Read(s))
		return nil
	}, end
}

// awaitEnd waits until nobody crawls there.
func awaitEnd(ctx context.Context, at place) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		running := at.listens(ctx)
		if !running { // it puts its state away behind the socket
			var err error
			if running, err = locked(at.dir); err != nil || !running {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
