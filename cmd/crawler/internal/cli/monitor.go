package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/view"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// logEvery is the interval between two log lines about progress, if there is no live
// view.
const logEvery = 30 * time.Second

// watch shows the progress of the run until ctx ends, in the live view or in the log.
func (r *running) watch(ctx context.Context) {
	var meter report.Meter
	paused, unreached := r.paused, false
	logged := time.Now()
	for sample, err := range r.crawl.Watch(ctx) {
		r.files.refused.flush()
		if err != nil {
			continue // the store logs its own errors
		}
		reading := meter.Read(sample)
		switch {
		case r.console.live != nil:
			r.console.live.Draw(reading)
		case reading.Time.Sub(logged) >= logEvery:
			view.LogLine(r.log, reading)
			logged = reading.Time
		}
		if now := reading.Gauges.Paused; now != paused && reading.Gauges.Silent == 0 {
			paused = now
			r.logPause(now)
		}
		if reading.Unreached && !unreached {
			unreached = true
			warnUnreached(r.console, reading.LastError)
		}
	}
}

// logPause logs that the crawl was paused or resumed.
func (r *running) logPause(paused bool) {
	if paused {
		r.log.Info("paused", slog.String("resume", r.plan.at.command("resume")))
	} else {
		r.log.Info("resumed")
	}
}
