package crawl

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// eachLatest calls the function each with the latest record of each URL. It reads no records and returns
// false if there are so many that this would take too long.
func (ses *session) eachLatest(ctx context.Context, stats frontier.Stats, each func(*record.Record)) (read bool) {
	if stats.Records > seedsAtEnd {
		return false
	}
	records, err := ses.engine.CommittedRecords(ctx)
	if err == nil {
		err = engine.Selection{Once: true}.Read(ctx, records, func(lines record.Lines) error {
			for r, err := range parsed[record.Record](lines) {
				if err != nil {
					return err
				}
				each(&r)
			}
			return nil
		})
	}
	if err != nil {
		ses.plan.Logger.Debug("records not read at the end of the run", slog.Any("err", err))
	}
	return err == nil
}

// latestResults replaces the results of all rounds by those of the last round of each URL. It does
// nothing if that would take too long, or if records can be on other machines.
func (ses *session) latestResults(ctx context.Context, r *report.Report, stats frontier.Stats) {
	if !r.AllRounds || ses.plan.Redis != nil && ses.plan.Settings.Sink != sinkPostgres {
		return
	}
	outcomes := make(map[frontier.Outcome]uint64)
	if ses.eachLatest(ctx, stats, func(r *record.Record) { outcomes[frontier.Outcome(r.Outcome)]++ }) {
		r.Results, r.AllRounds = report.ResultsOf(outcomes), false
	}
}

// addDenied sets Report.Denied if the server refused every seed, or robots.txt forbids it, and no page was
// found in a sitemap either. It reads the records only if there may be no page.
func (ses *session) addDenied(ctx context.Context, r *Result) {
	if r.End == fetcher.Stopped || r.Stats.Queued+r.Stats.Leased > 0 || !ses.mayBeDenied(r.Report.Results) {
		return
	}
	var denied report.DeniedSeeds
	var all, finished uint64
	other := false // a seed has another result, or there is a page
	read := ses.eachLatest(ctx, r.Stats, func(r *record.Record) {
		all++
		isSeed := r.Depth == 0 && r.Class != frontier.Sitemap.String()
		switch {
		case isDenial(r) && isSeed:
			denied.Add(report.DeniedSeed{URL: r.URL, Status: r.Status, Why: r.Error})
		case isDenial(r), r.Outcome == string(frontier.Redirect), r.Class == frontier.Sitemap.String():
		case isSeed, r.Outcome == string(frontier.OK):
			other = true
		}
	})
	for _, n := range r.Stats.Outcomes {
		finished += n
	}
	// In a crawl of many workers, other records can be on other machines.
	if read && denied.Count > 0 && !other && (r.Stats.Repeats > 0 || all == finished) {
		r.Report.Denied = &denied
	}
}

// mayBeDenied reports whether all results are redirects, errors of the client, URLs that a wall or robots.txt
// forbids, and perhaps sitemaps. It returns false if they are only redirects and sitemaps.
func (ses *session) mayBeDenied(results []report.Result) bool {
	const mostSitemaps = 100
	some := false
	for _, r := range results {
		switch r.Kind {
		case report.Status2xx:
			if !ses.plan.policy.Load().Sitemaps || r.Count > mostSitemaps {
				return false
			}
		case report.Status4xx, report.Forbidden, report.Use, report.Blocked:
			some = true
		case report.Status3xx, report.Broken:
		default:
			return false
		}
	}
	return some
}

// isDenial reports whether a URL was not fetched because robots.txt forbids it, its owner refuses the use, or a wall or the server refuses it.
func isDenial(r *record.Record) bool {
	return r.Outcome == string(frontier.Robots) || r.Outcome == string(frontier.RefusedUse) || r.Outcome == string(frontier.Blocked) || slices.Contains(denials, r.Status)
}

// denials are the statuses with which a server refuses a client, whatever page it asks for.
var denials = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons}
