package crawl

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/events"
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
	sampling   = 0.01                // visits of pages at random for each other one, which measure how many are up to date
	figuresAge = 2 * time.Second     // of what the rows sum up to, at most
	allObey    = 6 * time.Second     // after which all workers obey a new policy
)

// checkRecrawl returns why the pages of this crawl cannot be visited again, or nil.
func (p *Plan) checkRecrawl(s *Settings) error {
	if aim, err := revisit.ParseAim(s.Recrawl); err != nil || !aim.On() {
		return nil // Settings.Check names a fault
	}
	switch {
	case p.Redis != nil && p.Postgres == nil && p.stored[exactSetting] == "":
		return &settings.Error{Name: "recrawl", Err: errors.New("a crawl in Redis remembers its pages in Postgres: add --postgres, or use a crawl in a directory (--dir)")}
	case p.Redis == nil && s.Sink == sinkPostgres:
		return &settings.Error{Name: "recrawl", Err: errors.New("it follows record files, but the records are rows of Postgres: use a crawl with --sink jsonl")}
	}
	return nil
}

// revisits visits the pages of a crawl again. It implements fetcher.Visits.
type revisits struct {
	ses    *session
	ctx    context.Context    // calls to shared rows end with it
	cancel context.CancelFunc // called by close
	since  time.Time          // when the run began, if it began with a Recrawl: its pages were read with its settings; used by replan

	// only run uses these fields
	begun, begunAs, leads bool // the records are found; the plan was made by the process that queues what is due; this is that process
	planned               time.Time
	plannedFor            *policy.Policy
	box                   *engine.Outbox // of the records, if rows are shared
	cursor                visits.Cursor
	credit                float64 // visits of pages at random that offer may queue

	mu      sync.Mutex
	store   *visits.Store // nil until the policy has a Recrawl
	plan    revisit.Plan
	plans   visits.Plans // of hosts
	tooSlow []report.HostVisits

	figuring  sync.Mutex    // locks what follows
	figures   report.Visits // as they were at figuredAt
	figuredAt time.Time
}

var _ fetcher.Visits = (*revisits)(nil)

// Active implements fetcher.Visits.
func (r *revisits) Active() bool { return r.ses.plan.policy.Load().Recrawl.On() }

// Known implements fetcher.Visits.
func (r *revisits) Known(_ context.Context, items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]fetcher.Known, error) {
	if !r.Active() {
		return nil, nil
	}
	if r.shared() { // an embedded crawl opens them in run, and its rows are never ahead of its queue
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	store := r.store
	r.mu.Unlock()
	if store == nil {
		return nil, nil
	}
	rows, err := store.Rows(items)
	if err != nil {
		return nil, err
	}
	known := make(map[bloomstore.Fingerprint]fetcher.Known, len(rows))
	for item, row := range rows {
		known[item] = fetcher.Known{
			Row: row.Row, Archived: row.Archived, Unconditional: store.ReadAgain(&row, time.Now().Add(-oldestRead)), Next: row.Reached + 1,
		}
	}
	return known, nil
}

// shared reports whether the workers of a crawl in Redis share the rows.
func (r *revisits) shared() bool { return r.ses.plan.Redis != nil }

// open opens the rows, unless they are open.
func (r *revisits) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		return nil
	}
	store, err := r.ses.openVisits(r.ctx, rand.Text())
	if err == nil {
		r.store = store
	}
	return err
}

// openVisits opens the rows of the crawl. It returns nil if there are none, unless a worker is named, who creates them.
func (ses *session) openVisits(ctx context.Context, worker string) (*visits.Store, error) {
	if ses.plan.Redis == nil {
		return visits.Open(ses.plan.Dir, worker == "")
	}
	pg := ses.engine.Postgres()
	if pg == nil {
		return nil, nil
	}
	return visits.Shared(ctx, pg, worker)
}

// close closes the rows.
func (r *revisits) close() error {
	r.cancel()
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
			more, err := r.goOn(ctx, p, tail)
			switch {
			case ctx.Err() != nil:
				return nil
			case r.shared() && errors.Is(err, frontier.ErrUnavailable):
				r.ses.plan.Logger.Debug("pages are not visited again now", slog.Any("err", err))
			case err != nil:
				return err
			case more:
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

// goOn opens the rows, makes a plan if it is time, and does a step.
func (r *revisits) goOn(ctx context.Context, p *policy.Policy, tail *record.Tail) (more bool, err error) {
	if err := r.open(); err != nil {
		return false, err
	}
	if !r.begun {
		if err := r.begin(ctx, tail); err != nil {
			return false, err
		}
		r.begun = true
	}
	if err := r.store.Refresh(); err != nil {
		return false, err
	}
	if r.leads, err = r.store.Leads(); err != nil {
		return false, err
	}
	if p != r.plannedFor || r.leads && !r.begunAs || time.Since(r.planned) > planEvery {
		if err := r.replan(ctx, p); err != nil {
			return false, err
		}
		r.plannedFor, r.planned, r.begunAs = p, time.Now(), r.leads
	}
	return r.step(ctx, p, tail)
}

// begin finds out how far the rows follow the records of this process.
func (r *revisits) begin(ctx context.Context, tail *record.Tail) error {
	if !r.shared() {
		return tail.Seek(r.store.At())
	}
	boxes, err := r.ses.engine.Outboxes(ctx)
	if err != nil {
		return err
	}
	if len(boxes) != 1 {
		return fmt.Errorf("crawl: a worker has %d outboxes, want 1", len(boxes))
	}
	r.box, r.cursor.Source = &boxes[0], boxes[0].Journal
	if r.cursor.Source == "" {
		r.cursor.Source = sourceRows
	}
	r.cursor.At, err = r.ses.engine.Postgres().VisitCursor(ctx, r.cursor.Source)
	return err
}

// sourceRows is the source of records that are rows, which the workers share.
const sourceRows = "rows"

// replan makes a plan of the policy and of what is known about the pages.
func (r *revisits) replan(ctx context.Context, p *policy.Policy) error {
	text := fmt.Sprintf("%v %v", p.Recrawl, p.RecrawlLimits) + p.Hosts.Revisits()
	s, err := r.ses.plan.settingsAt(r.ses.version())
	if err != nil {
		return err
	}
	since := r.since
	if r.since = (time.Time{}); since.IsZero() {
		since = time.Now()
		if r.shared() {
			since = since.Add(allObey) // until then, other workers may read pages with the settings before
		}
	}
	if r.leads {
		if err := r.store.Begin(text, keptOf(&s), since); err != nil {
			return err
		}
	}
	census := r.store.Census()
	plan := p.Recrawl.Plan(census, p.RecrawlLimits)
	var tooSlow []report.HostVisits
	if r.leads {
		if tooSlow, err = r.ses.tooSlow(ctx, r.store); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan, r.plans, r.tooSlow = plan, plansOf(p, plan, census), tooSlow
	return nil
}

// tooSlow returns hosts whose delay does not allow as many visits as their pages want, of those that want the most.
func (ses *session) tooSlow(ctx context.Context, store *visits.Store) (slow []report.HostVisits, err error) {
	busiest, err := store.Busiest(20)
	if err != nil {
		return nil, err
	}
	view := ses.newHostViews()
	for _, sum := range busiest {
		err := ses.engine.Hosts(ctx, frontier.HostQuery{Host: sum.Host, Finished: true}, func(state frontier.HostState) bool {
			if v := hostVisits(sum, time.Duration(view.of(&state).Delay)); v.TooSlow() {
				slow = append(slow, v)
			}
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	return slow, nil
}

// hostVisits returns the visits that a host wants, and those that its delay allows.
func hostVisits(sum visits.HostSum, delay time.Duration) report.HostVisits {
	v := report.HostVisits{
		Host: sum.Host, Pages: sum.Pages, Queued: sum.Queued, PerDay: sum.PerDay,
		Lastmod: sum.Trusted(), LastmodRight: sum.Right, LastmodWrong: sum.Wrong, LastmodMissed: sum.Missed,
	}
	if delay > 0 {
		v.Allowed = float64(24*time.Hour) / float64(delay)
	}
	return v
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
	if !r.leads {
		return false, nil
	}
	if more, err := r.store.Sweep(r.plans, visitStep); err != nil || more {
		return more, err
	}
	return r.offer(ctx, p, time.Now())
}

// follow adds the visits of at most visitStep records that are committed.
func (r *revisits) follow(ctx context.Context, tail *record.Tail) (n int, err error) {
	if r.shared() {
		return r.followBox(ctx)
	}
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
		if seen, err = r.addVisit(seen, line); err != nil {
			return n, fmt.Errorf("crawl: a record before %v: %w", tail.At(), err)
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, r.store.Add(seen, tail.At(), r.plans)
}

// addVisit adds the visit of a record, unless it is a check of a link that leads out.
func (r *revisits) addVisit(seen []visits.Visit, line []byte) ([]visits.Visit, error) {
	var rec record.Record
	if err := json.Unmarshal(line, &rec); err != nil || rec.Check != "" {
		return seen, err
	}
	item, err := finishedItem(&rec)
	if err != nil {
		return seen, err
	}
	return append(seen, visits.Visit{
		Fingerprint: r.ses.engine.Hasher().Fingerprint(rec.URL), Item: item, Target: rec.RedirectTo, Visit: rec.Visit(),
	}), nil
}

// followBox is follow for shared rows: it adds the visits of this worker's own records, or, if the records are rows, those of all
// workers. It returns visitStep if there may be more.
func (r *revisits) followBox(ctx context.Context) (n int, err error) {
	if r.cursor.Source == sourceRows && !r.leads {
		return 0, nil
	}
	read, next, err := r.box.Read(ctx, events.Cursor(r.cursor.At), visitStep)
	if gone, is := errors.AsType[*events.GoneError](err); is {
		r.ses.plan.Logger.Warn("pages of missing records are not visited again", slog.String("missing", gone.Range))
		since := time.Time{} // after all records
		if r.cursor.At == "" {
			since = time.Unix(1, 0) // at the first record that is left
		}
		next, err = r.box.Find(ctx, since)
	}
	if err != nil || string(next) == r.cursor.At {
		return 0, err
	}
	var seen []visits.Visit
	for i := range read {
		if read[i].Type != events.PageDone && read[i].Type != events.PageFailed {
			continue
		}
		if seen, err = r.addVisit(seen, read[i].Data); err != nil {
			return 0, fmt.Errorf("crawl: the record of %s: %w", read[i].Subject, err)
		}
	}
	cursor := visits.Cursor{Source: r.cursor.Source, At: string(next)}
	if err := r.store.AddFrom(seen, cursor, r.plans); err != nil {
		return 0, err
	}
	r.cursor = cursor
	return visitStep * min(len(read), 1), nil
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
	more = len(prints) == visitStep
	if prints, rows, err = r.refused(p, prints, rows, now); err != nil {
		return false, err
	}
	if prints, rows, err = r.postpone(prints, rows, now); err != nil || len(prints) == 0 {
		return more, err
	}
	r.credit += sampling * float64(len(prints))
	early, sampled, err := r.store.Sample(int(r.credit), now)
	if err != nil {
		return false, err
	}
	r.credit -= math.Floor(r.credit)
	prints, rows = append(prints, early...), append(rows, sampled...)
	var items []frontier.Finished
	var queued, purged []bloomstore.Fingerprint
	var due []visits.Row
	for i := range rows {
		if since := rows[i].GoneSince(); p.PurgeGone > 0 && !since.IsZero() && now.Sub(since) >= p.PurgeGone {
			purged = append(purged, prints[i])
			continue
		}
		item := rows[i].Item
		item.Round = max(item.Round, rows[i].Reached)
		items, queued, due = append(items, item), append(queued, prints[i]), append(due, rows[i])
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
	return more, nil
}

// visits calls f with the rows of the crawl, and the argument r if this process runs the crawl. It does not call f if there
// are no rows.
func (ses *session) visits(f func(store *visits.Store, r *revisits) error) error {
	if !ses.plan.policy.Load().Recrawl.On() || ses.plan.Dir == "" && ses.plan.Redis == nil {
		return nil
	}
	if r := ses.revisits; r != nil {
		r.mu.Lock()
		store := r.store
		r.mu.Unlock()
		if store == nil {
			return nil // this process will open it
		}
		return f(store, r)
	}
	store, err := ses.openVisits(context.Background(), "")
	if err != nil || store == nil {
		return err
	}
	defer func() { _ = store.Close() }() // it only reads
	return f(store, nil)
}

// visitFigures returns what the rows sum up to, or nil if pages are not visited again.
func (ses *session) visitFigures(ctx context.Context) (figures *report.Visits, err error) {
	err = ses.visits(func(store *visits.Store, r *revisits) error {
		p, now := ses.plan.policy.Load(), time.Now()
		if r == nil {
			f, err := store.Figures(now, p.Recrawl.Plan(store.Census(), p.RecrawlLimits))
			if err == nil {
				f.TooSlow, err = ses.tooSlow(ctx, store)
			}
			figures = &f
			return err
		}
		r.mu.Lock()
		plan, tooSlow := r.plan, r.tooSlow
		r.mu.Unlock()
		r.figuring.Lock()
		defer r.figuring.Unlock()
		if now.Sub(r.figuredAt) > figuresAge {
			if r.figures, err = store.Figures(now, plan); err != nil {
				return err
			}
			r.figures.TooSlow, r.figuredAt = tooSlow, now
		}
		f := r.figures
		figures = &f
		return nil
	})
	if err == nil && figures != nil && ses.plan.Redis != nil {
		stats, err := ses.engine.Counters(ctx)
		figures.Stale = stats.Outcomes[frontier.Stale]
		return figures, err
	}
	return figures, err
}

// addVisits adds the visits that hosts want.
func (ses *session) addVisits(hosts []report.Host) error {
	return ses.visits(func(store *visits.Store, _ *revisits) error {
		for i := range hosts {
			sum, err := store.Host(hosts[i].Host)
			if err != nil {
				return err
			}
			if sum.Pages > 0 {
				v := hostVisits(sum, time.Duration(hosts[i].Delay))
				hosts[i].Visits = &v
			}
		}
		return nil
	})
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
