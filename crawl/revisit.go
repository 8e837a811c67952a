package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
)

const (
	visitStep  = 1000                // records, or rows, of one step
	mostQueued = 100_000             // rows that wait in the queue for their next visit
	lookEvery  = time.Second         // longest pause before new records and settings are looked for
	planEvery  = time.Minute         // between two plans, while the settings are the same
	oldestRead = 30 * 24 * time.Hour // after which a page is read as a whole
)

// checkRecrawl returns why the pages of this crawl cannot be visited again, or nil.
func (p *Plan) checkRecrawl(s *Settings) error {
	if aim, err := revisit.ParseAim(s.Recrawl); err != nil || !aim.On() {
		return nil // Settings.Check names a fault
	}
	switch {
	case p.Redis != nil:
		return &settings.Error{Name: "recrawl", Err: errors.New("a crawl in Redis cannot visit pages again yet: use a crawl in a directory (--dir)")}
	case s.Sink == sinkPostgres:
		return &settings.Error{Name: "recrawl", Err: errors.New("it follows record files, but the records are rows of Postgres: use a crawl with --sink jsonl")}
	}
	return nil
}

// revisits visits the pages of a crawl again. It implements fetcher.Visits.
type revisits struct {
	ses   *session
	since time.Time // when the run began, if it began with a Recrawl: its pages were read with its settings; used by replan

	mu    sync.Mutex
	store *visits.Store // nil until the policy has a Recrawl
	plan  revisit.Plan
}

var _ fetcher.Visits = (*revisits)(nil)

// Active implements fetcher.Visits.
func (r *revisits) Active() bool { return r.ses.plan.policy.Load().Recrawl.On() }

// Known implements fetcher.Visits.
func (r *revisits) Known(item bloomstore.Fingerprint) (known fetcher.Known, ok bool, err error) {
	r.mu.Lock()
	store := r.store
	r.mu.Unlock()
	if store == nil || !r.Active() {
		return known, false, nil
	}
	row, ok, err := store.Row(item)
	if err != nil || !ok {
		return known, false, err
	}
	return fetcher.Known{Row: row.Row, Archived: row.Archived, Unconditional: store.ReadAgain(&row, time.Now().Add(-oldestRead))}, true, nil
}

// open opens the rows, unless they are open.
func (r *revisits) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		return nil
	}
	var err error
	r.store, err = visits.Open(r.ses.plan.Dir, false)
	return err
}

// close closes the rows.
func (r *revisits) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return nil
	}
	err := r.store.Close()
	r.store = nil
	return err
}

// run follows the records and queues what is due, until ctx ends. While the policy has a Recrawl, the worker does not end
// for lack of URLs. The argument release was returned by the worker's Hold; nil means that there is no hold.
func (r *revisits) run(ctx context.Context, release func()) error {
	tail := record.Reader{Dir: r.ses.plan.Dir, Series: record.Pages}.Tail(record.Place{File: 1})
	defer func() { _ = tail.Close() }() // it only reads
	defer func() {
		if release != nil {
			release()
		}
	}()
	planned := time.Time{}
	var plannedFor *policy.Policy
	for {
		p := r.ses.plan.policy.Load()
		wait := lookEvery
		if !p.Recrawl.On() {
			if release != nil {
				release()
				release = nil
			}
		} else {
			if release == nil {
				release = r.ses.worker.Hold()
			}
			begins := r.store == nil
			if err := r.open(); err != nil {
				return err
			}
			if begins {
				if err := tail.Seek(r.store.At()); err != nil {
					return err
				}
			}
			if p != plannedFor || time.Since(planned) > planEvery {
				if err := r.replan(p); err != nil {
					return err
				}
				plannedFor, planned = p, time.Now()
			}
			more, err := r.step(ctx, p, tail)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			if more {
				wait = 0
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// replan makes a plan of the policy and of what is known about the pages.
func (r *revisits) replan(p *policy.Policy) error {
	text := fmt.Sprintf("%v %v", p.Recrawl, p.RecrawlLimits)
	s, err := r.ses.plan.settingsAt(r.ses.version())
	if err != nil {
		return err
	}
	since := r.since
	if r.since = (time.Time{}); since.IsZero() {
		since = time.Now()
	}
	if err := r.store.Begin(text, keptOf(&s), since); err != nil {
		return err
	}
	plan := p.Recrawl.Plan(r.store.Census(), p.RecrawlLimits)
	r.mu.Lock()
	r.plan = plan
	r.mu.Unlock()
	return nil
}

// version returns the version of the policy that this process obeys.
func (ses *session) version() *PolicyVersion {
	ses.adopting.Lock()
	defer ses.adopting.Unlock()
	return ses.plan.version
}

// keptOf returns the settings that decide which links and content of a page are read.
func keptOf(s *Settings) string {
	var b strings.Builder
	for _, row := range settings.Rows() {
		switch row.Name {
		case "links", "field", "text", "scope", "include", "exclude", "max-depth", "sitemaps", "feeds", "assets", "max-url-bytes", "max-path-repeats",
			"max-params", "max-years-ahead", "check-external", "preferences", "content-use", "max-body", "types", "save", "drop", "skip-duplicates":
			fmt.Fprintf(&b, "%s=%s\n", row.Name, row.Value(s).Stored())
		}
	}
	return b.String()
}

// step reads some records, gives some rows their new time, and queues what is due. It reports whether there is more to do now.
func (r *revisits) step(ctx context.Context, p *policy.Policy, tail *record.Tail) (more bool, err error) {
	read, err := r.follow(ctx, tail)
	if err != nil || read == visitStep {
		return true, err // nothing is queued before all records are read
	}
	if more, err := r.store.Sweep(r.plan, visitStep); err != nil || more {
		return more, err
	}
	return r.offer(ctx, p, time.Now())
}

// follow adds the visits of at most visitStep records that are committed.
func (r *revisits) follow(ctx context.Context, tail *record.Tail) (n int, err error) {
	position, err := r.ses.engine.Position(ctx)
	if err != nil {
		return 0, err
	}
	end := record.Pages.EndOf(position)
	var seen []visits.Visit
	for ; n < visitStep; n++ {
		line, err := tail.Next(end)
		if errors.Is(err, io.EOF) {
			break
		}
		if gone, is := errors.AsType[*record.GoneError](err); is && tail.At().File < end.File {
			r.ses.plan.Logger.Warn("pages of missing records are not visited again", slog.String("missing", gone.Range()))
			if err := tail.Seek(record.Place{File: tail.At().File + 1}); err != nil {
				return n, err
			}
			continue
		}
		if err != nil {
			return n, err
		}
		if _, erased := record.Since(line); erased {
			continue
		}
		var rec record.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return n, fmt.Errorf("crawl: a record before %v: %w", tail.At(), err)
		}
		if rec.Check != "" {
			continue // a check of a link that leads out
		}
		item, err := finishedItem(&rec)
		if err != nil {
			return n, err
		}
		seen = append(seen, visits.Visit{
			Fingerprint: r.ses.engine.Hasher().Fingerprint(rec.URL), Item: item, Target: rec.RedirectTo, Visit: rec.Visit(),
		})
	}
	if n == 0 {
		return 0, nil
	}
	return n, r.store.Add(seen, tail.At(), r.plan)
}

// offer queues at most visitStep rows that are due, and forgets those that are gone for long. It reports whether there are more.
func (r *revisits) offer(ctx context.Context, p *policy.Policy, now time.Time) (more bool, err error) {
	if r.store.InQueue() >= mostQueued {
		return false, nil
	}
	prints, rows, _, err := r.store.Due(now, visitStep)
	if err != nil || len(prints) == 0 {
		return false, err
	}
	var items []frontier.Finished
	var queued, purged []bloomstore.Fingerprint
	var due []visits.Row
	for i := range rows {
		if since := rows[i].GoneSince(); p.PurgeGone > 0 && !since.IsZero() && now.Sub(since) >= p.PurgeGone {
			purged = append(purged, prints[i])
			continue
		}
		items, queued, due = append(items, rows[i].Item), append(queued, prints[i]), append(due, rows[i])
	}
	if len(purged) > 0 {
		if err := r.store.Purge(purged); err != nil {
			return false, err
		}
	}
	if len(items) > 0 {
		crash.Point("visits due")
		if _, err := r.ses.recheck(ctx, items); err != nil {
			return false, err
		}
		crash.Point("visits offered")
		if err := r.store.Queued(queued, due, now); err != nil {
			return false, err
		}
	}
	return len(prints) == visitStep, nil
}

// visitFigures returns what the rows sum up to, or nil if pages are not visited again.
func (ses *session) visitFigures() (*report.Visits, error) {
	p := ses.plan.policy.Load()
	if !p.Recrawl.On() || ses.plan.Dir == "" || ses.plan.Redis != nil {
		return nil, nil
	}
	store, plan := (*visits.Store)(nil), revisit.Plan{}
	if r := ses.revisits; r != nil {
		r.mu.Lock()
		store, plan = r.store, r.plan
		r.mu.Unlock()
	}
	if store == nil {
		var err error
		if store, err = visits.Open(ses.plan.Dir, true); err != nil || store == nil {
			return nil, err
		}
		defer func() { _ = store.Close() }() // it only reads
		plan = p.Recrawl.Plan(store.Census(), p.RecrawlLimits)
	}
	f, err := store.Figures(time.Now(), plan)
	return &f, err
}

// revisit visits pages again until ctx ends, if the policy says so. The returned channel receives the error, or nil. An error
// ends the run.
func (ses *session) revisit(ctx context.Context, endRun func(error)) <-chan error {
	done := make(chan error, 1)
	if ses.revisits == nil {
		done <- nil
		return done
	}
	var release func()
	if ses.plan.policy.Load().Recrawl.On() {
		release = ses.worker.Hold() // before the worker begins
	}
	go func() {
		err := ses.revisits.run(ctx, release)
		if err != nil {
			endRun(err)
		}
		done <- err
	}()
	return done
}
