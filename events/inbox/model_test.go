package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// model is a model of an inbox. It computes the expected results of random calls.
type model struct {
	window   time.Duration
	attempts int
	now      time.Time
	marks    map[string]time.Time // by id: when the mark expires
	stored   map[string]*pending
}

type pending struct {
	attempts int
	earliest time.Time // the due time, if the random part of the back-off is 0
	latest   time.Time
	dead     bool
}

// mark reports whether an event is new, and marks it.
func (m *model) mark(id string) inbox.Result {
	if expires, known := m.marks[id]; known && expires.After(m.now) {
		return inbox.Duplicate
	}
	m.marks[id] = m.now.Add(m.window)
	return inbox.Done
}

// candidates returns the ids of the events that are possibly due: their earliest due time
// was reached. The result due reports whether at least one of them is certainly due, because
// its latest due time was reached too.
func (m *model) candidates() (ids []string, due bool) {
	for id, p := range m.stored {
		if !p.dead && !p.earliest.After(m.now) {
			ids = append(ids, id)
			due = due || !p.latest.After(m.now)
		}
	}
	return ids, due
}

var modelGroups atomic.Int32

const backoff = time.Minute

// TestModel compares the results of random calls with the model, in two groups. Each group
// has a random window. The clocks of both groups show the same time.
func TestModel(t *testing.T) {
	t.Parallel()
	pool := database(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := t.Context()
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		run := modelGroups.Add(1)
		var models []*model
		var inboxes []*inbox.Inbox
		for group := range 2 {
			m := &model{
				window:   rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, inbox.Forever}).Draw(r, "window"),
				attempts: rapid.IntRange(1, 3).Draw(r, "attempts"), now: now,
				marks: map[string]time.Time{}, stored: map[string]*pending{},
			}
			models = append(models, m)
			inboxes = append(inboxes, open(t, pool, func(c *inbox.Config) {
				c.Group, c.Window = fmt.Sprint("model-", run, "-", group), m.window
			}))
			if m.window == inbox.Forever {
				m.window = 100 * 365 * 24 * time.Hour // longer than a run
			}
			inboxes[group].SetClock(func() time.Time { return m.now })
		}
		for range rapid.IntRange(1, 40).Draw(r, "calls") {
			group := rapid.IntRange(0, 1).Draw(r, "group")
			m, i := models[group], inboxes[group]
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "id")
			switch call := rapid.SampledFrom([]string{"once", "fails", "store", "work", "work fails", "wait", "sweep", "retry", "discard"}).Draw(r, "call"); call {
			case "once", "fails":
				m.once(ctx, r, i, id, call == "fails")
			case "store":
				m.store(ctx, r, i, id)
			case "work", "work fails":
				m.work(ctx, r, i, call == "work fails")
			case "wait":
				d := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 80 * time.Second, time.Hour}).Draw(r, "time")
				for _, m := range models {
					m.now = m.now.Add(d)
				}
			case "sweep": // it does not change the results of other calls
				if _, err := i.SweepOnce(ctx, inbox.SweepConfig{Batch: 1, Share: 1}); err != nil {
					r.Fatal(err)
				}
			case "retry", "discard":
				m.letters(ctx, r, i, id, call == "retry")
			}
			m.compare(ctx, r, i)
		}
	})
}

func (m *model) once(ctx context.Context, r *rapid.T, i *inbox.Inbox, id string, fails bool) {
	before, known := m.marks[id]
	want := m.mark(id)
	ran := false
	got, err := i.Once(ctx, id, func(context.Context, pgx.Tx) error {
		ran = true
		if fails {
			return errHandler
		}
		return nil
	})
	if fails && want == inbox.Done {
		want = 0
		if m.marks[id] = before; !known {
			delete(m.marks, id)
		}
	}
	if got != want || (err != nil) != (want == 0) || ran != (want != inbox.Duplicate) {
		r.Fatalf("Once of %q = %v, %v, and its handler ran: %v; want %v", id, got, err, ran, want)
	}
}

func (m *model) store(ctx context.Context, r *rapid.T, i *inbox.Inbox, id string) {
	want := m.mark(id)
	if _, known := m.stored[id]; known {
		want = inbox.Duplicate
	} else if want == inbox.Done {
		m.stored[id] = &pending{earliest: m.now, latest: m.now}
	}
	if got, err := i.Store(ctx, inbox.Event{ID: id, Type: "mail"}); got != want || err != nil {
		r.Fatalf("Store of %q = %v, %v; want %v", id, got, err, want)
	}
}

func (m *model) work(ctx context.Context, r *rapid.T, i *inbox.Inbox, fails bool) {
	ids, due := m.candidates()
	handled := ""
	found, err := i.Round(ctx, inbox.WorkConfig{
		Handlers: map[string]inbox.Handler{"mail": func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
			handled = e.ID
			if p := m.stored[e.ID]; p == nil || e.Attempt != p.attempts+1 {
				r.Fatalf("Work makes attempt %d of event %q; the model has %+v", e.Attempt, e.ID, p)
			}
			if fails {
				return errHandler
			}
			return nil
		}},
		Attempts: m.attempts, Backoff: backoff, MaxBackoff: 4 * backoff,
	})
	switch {
	case err != nil:
		r.Fatal(err)
	case found != (handled != ""), handled == "" && due, handled != "" && !slices.Contains(ids, handled):
		r.Fatalf("Work handled %q, want one of %q; handling none is wrong if one is certainly due: %v", handled, ids, due)
	case handled == "":
		return
	case !fails:
		delete(m.stored, handled)
		return
	}
	p := m.stored[handled]
	wait := min(4*backoff, backoff<<p.attempts)
	p.attempts++
	p.earliest, p.latest = m.now.Add(wait), m.now.Add(wait*5/4+time.Microsecond)
	p.dead = p.attempts >= m.attempts
}

func (m *model) letters(ctx context.Context, r *rapid.T, i *inbox.Inbox, id string, retry bool) {
	want := 0
	p := m.stored[id]
	if p != nil && p.dead {
		want = 1
	}
	call := i.Discard
	if retry {
		call = i.Retry
	}
	if n, err := call(ctx, id); n != want || err != nil {
		r.Fatalf("retry=%v: Retry or Discard of %q = %d, %v; want %d", retry, id, n, err, want)
	}
	switch {
	case want == 0:
	case retry:
		*p = pending{earliest: m.now, latest: m.now}
	default:
		delete(m.stored, id)
	}
}

// compare compares the stored events with the model.
func (m *model) compare(ctx context.Context, r *rapid.T, i *inbox.Inbox) {
	var want []string
	pending := 0
	for id, p := range m.stored {
		if p.dead {
			want = append(want, id)
		} else {
			pending++
		}
	}
	letters, err := i.Dead(ctx, 10)
	if err != nil {
		r.Fatal(err)
	}
	var got []string
	for _, letter := range letters {
		got = append(got, letter.Event.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	stats, err := i.Stats(ctx)
	if err != nil || !slices.Equal(got, want) || stats.Pending != int64(pending) {
		r.Fatalf("%d pending events, dead letters %q (%v); want %d pending and %q", stats.Pending, got, err, pending, want)
	}
}
