package view

import (
	"context"
	"log/slog"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// LogLine logs a reading as one line, for output on which no view can be drawn. A line
// every 30 s is enough. The attributes are
//
//	pages, pages_per_s, bytes_per_s, queued, hosts, seen_share, failed, errors, limited_by
//
// If there is a recent error, last_error follows. If hosts have reached --max-per-host, full_hosts
// follows. If the crawl has relays, events_behind
// follows, for the relay that is furthest behind. If an end is known, ends_by and
// done_share follow. If the remaining time is known, left follows.
func LogLine(log *slog.Logger, r report.Reading) {
	attrs := []slog.Attr{
		slog.Uint64("pages", r.Pages),
		slog.Float64("pages_per_s", rounded(r.PagesPerSecond, 100)),
		slog.Float64("bytes_per_s", rounded(r.BytesPerSecond, 1)),
		slog.Uint64("queued", r.Queued),
		slog.Uint64("hosts", r.Hosts),
		slog.Float64("seen_share", rounded(r.SeenShare(), 1000)),
		slog.Uint64("failed", r.Failed),
		slog.Uint64("errors", r.Errors),
		slog.String("limited_by", r.Limit.Words()),
	}
	if failing(r) {
		attrs = append(attrs, slog.String("last_error", r.LastError.String()))
	}
	if len(r.Causes) > 0 {
		attrs = append(attrs, slog.String("errors_by_cause", ascii(r.Causes.String())))
	}
	if len(r.FullHosts) > 0 {
		attrs = append(attrs, slog.String("full_hosts", r.FullHosts.String()))
	}
	if len(r.Pauses) > 0 {
		attrs = append(attrs, slog.String("paused", ascii(strings.Join(r.Pauses, "; "))))
	}
	if len(r.Relays) > 0 {
		var behind uint64
		for i := range r.Relays {
			behind = max(behind, r.Relays[i].Events)
		}
		attrs = append(attrs, slog.Uint64("events_behind", behind))
	}
	if r.End != (report.End{}) {
		attrs = append(attrs, slog.String("ends_by", string(r.End.By)), slog.Float64("done_share", rounded(r.End.Share, 1000)))
		if r.End.Left >= 0 {
			attrs = append(attrs, slog.String("left", human.Span(r.End.Left)))
		}
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "progress", attrs...)
}

// rounded rounds x to the nearest multiple of 1/scale.
func rounded(x, scale float64) float64 { return math.Round(x*scale) / scale }
