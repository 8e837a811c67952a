package crawl

import (
	"context"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// onlyBlocked implements fetcher.Config.OnlyBlocked, and keeps the hosts in ses.blocked.
func (ses *session) onlyBlocked(ctx context.Context) (bool, error) {
	stats, err := ses.engine.Counters(ctx)
	if err != nil || stats.Leased > 0 {
		return false, err
	}
	only, blocked := true, &report.BlockedHosts{}
	err = ses.engine.Hosts(ctx, frontier.HostQuery{}, func(h frontier.HostState) bool {
		why, err := fetcher.BlockOf(h.Blob)
		if err != nil {
			ses.plan.Logger.Debug("host state unreadable", slog.String("host", h.Host), slog.Any("err", err))
		}
		if only = why != "" && h.Leased == 0; only {
			blocked.Add(report.BlockedHost{Host: h.Host, Why: why, Queued: h.Queued, NextTry: time.Now().Add(h.DueIn).UTC().Truncate(time.Second)})
		}
		return only
	})
	if err != nil || !only || blocked.Count == 0 {
		return false, err
	}
	ses.blocked = blocked
	return true, nil
}
