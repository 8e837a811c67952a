package crawl

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// status implements Handle.Status.
func (ses *session) status(ctx context.Context) (st report.Status, err error) {
	if st.Stats, err = ses.engine.Stats(ctx); err != nil {
		return st, err
	}
	if st.Exact, err = ses.engine.ExactKeys(ctx); err != nil {
		return st, err
	}
	st.Relays = ses.lags(ctx)
	if st.Visits, err = ses.visitFigures(ctx); err != nil {
		return st, err
	}
	if st.Pauses, st.Drops, err = ses.rules(ctx); err != nil {
		return st, err
	}
	if st.Shared, err = ses.engine.Sharing(ctx); err != nil {
		return st, err
	}
	if ses.monitor != nil {
		progress := ses.worker.Progress()
		st.Running, st.Progress, st.NotTaken = true, &progress, ses.monitor.notTaken()
		st.FullHosts, st.SameText, st.Errors = ses.monitor.fullHosts(), ses.monitor.sameText(), ses.monitor.errors(st.Stats)
		s, err := ses.monitor.sample(ctx, time.Now())
		f := ses.monitor.limit(s.Gauges)
		st.Now, st.Kind, st.Waits = f.Words(), f.Kind, s.Gauges.Waits
		return st, err
	}
	if err := ses.addNow(ctx, &st); err != nil {
		return st, err
	}
	if st.Errors, err = ses.storedErrors(ctx, st.Stats); err != nil {
		return st, err
	}
	last, err := ses.lastReport()
	if err != nil {
		return st, err
	}
	if last != nil {
		st.NotTaken, st.FullHosts, st.SameText = last.NotTaken, last.FullHosts, last.SameText
	}
	st.Running = st.Shared != nil && len(st.Shared.Workers) > 0
	for i := range st.Relays { // no worker can deliver these rows
		if r := &st.Relays[i]; !st.Running && r.Events > 0 && r.Journal == "" && ses.plan.Redis != nil && ses.plan.Postgres != nil {
			r.Send = ses.plan.Location().rowsCommand(r.Name)
		}
	}
	return st, nil
}

// lastPages returns with how many pages a crawl ends, or 0. One that visits its pages again goes on.
func lastPages(p *policy.Policy) uint64 {
	if p.Recrawl.On() {
		return 0
	}
	return p.MaxPages
}

// addNow adds what the crawl waits for to the status of a crawl that this process does not run.
func (ses *session) addNow(ctx context.Context, st *report.Status) error {
	waits, err := ses.waits(ctx, &st.Stats)
	if err != nil {
		return err
	}
	policy := ses.plan.policy.Load()
	f := report.Factor{Gauges: report.Gauges{
		Hosts: int(st.Stats.Hosts), Paused: st.Stats.Paused, Empty: st.Stats.Queued+st.Stats.Leased == 0, Waits: &waits,
		Idle: st.Shared == nil || len(st.Shared.Workers) == 0, Pages: st.Stats.Pages, MaxPages: lastPages(policy),
		Full: st.Shared != nil && policy.MaxQueued > 0 && st.Stats.Queued >= policy.MaxQueued,
	}}
	f.Kind = f.Gauges.Kind()
	st.Now, st.Kind, st.Waits = f.Words(), f.Kind, &waits
	return nil
}

// rules returns the rules of pause and drop in the newest version of the policy.
func (ses *session) rules(ctx context.Context) (pauses, drops []string, err error) {
	newest, err := ses.engine.NewestVersion(ctx)
	if err != nil {
		return nil, nil, err
	}
	now, err := ses.plan.settingsAt(newest)
	return now.Pause, now.Drop, err
}

// retry implements Handle.Retry.
func (ses *session) retry(ctx context.Context, q retryQuestion) (r Retried, err error) {
	if q.Outcome == frontier.Dropped {
		if err := ses.withdraw(ctx, q, &r); err != nil {
			return r, err
		}
	}
	r.URLs, err = ses.engine.Retry(ctx, q.Failures)
	ses.worker.Wake()
	return r, err
}

// withdraw removes drop rules from the policy before dropped URLs are queued again.
func (ses *session) withdraw(ctx context.Context, q retryQuestion, r *Retried) error {
	newest, err := ses.engine.LastVersion(ctx)
	if err != nil {
		return err
	}
	now, err := ses.plan.settingsAt(newest)
	if err != nil {
		return err
	}
	c := Change{Who: q.Who, Why: "retry of dropped URLs"}
	for _, rule := range targetsOf(now.Drop) {
		if q.Host == "" || rule.Host() == q.Host {
			c.Values, r.Withdrawn = append(c.Values, "drop-="+rule.String()), append(r.Withdrawn, rule.String())
		} else {
			r.Left = append(r.Left, rule.String())
		}
	}
	if c.Values == nil {
		return nil
	}
	changed, err := ses.change(ctx, c)
	r.Version = numberOf(changed.Version)
	return err
}

// pause pauses or resumes the crawl. It stores the state, and pauses or resumes the
// worker of this process at once. The result reports whether the crawl was paused before
// the call.
func (ses *session) pause(ctx context.Context, paused bool) (before bool, err error) {
	stats, err := ses.engine.Counters(ctx)
	if err != nil {
		return false, err
	}
	if err := ses.engine.Pause(ctx, paused); err != nil {
		return stats.Paused, err
	}
	if ses.monitor != nil {
		ses.worker.Pause(paused)
		ses.wake()
	}
	return stats.Paused, nil
}
