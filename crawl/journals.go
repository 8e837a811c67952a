package crawl

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/internal/human"
)

// A journal is the record files in one worker's directory. Redis knows each journal whose events
// are perhaps not wholly delivered: see redisstore.Journal.

const (
	// journalEvery is how often a worker reports its own journal.
	journalEvery = time.Second
	// adoptEvery is how often a worker looks for journals that no process delivers.
	adoptEvery = 5 * time.Second
	// settleEvery is how often a worker looks, at its end, whether other workers live.
	settleEvery = 500 * time.Millisecond
)

// reportOf returns the report of a journal for Redis.
func reportOf(ctx context.Context, box Outbox, r *report.RelayStatus) engine.Journal {
	host, _ := os.Hostname()
	j := engine.Journal{ID: box.Journal, Relay: r.Name, Worker: box.Worker, Host: host, Dir: box.Dir,
		Delivered: r.Delivered, Events: r.Events, Bytes: r.Bytes, More: r.More}
	if end, err := box.Find(ctx, time.Time{}); err == nil {
		j.Written = string(end)
	}
	return j
}

// addJournals adds to relays what Redis knows about the journals of other machines and of dead
// workers. sendWith returns the command that sends the events of a journal.
func addJournals(relays []report.RelayStatus, journals []engine.Journal, sendWith func(engine.Journal) string) []report.RelayStatus {
	for _, j := range journals {
		known := func(r report.RelayStatus) bool { return r.Journal == j.ID && r.Name == j.Relay }
		i := slices.IndexFunc(relays, known)
		if i < 0 && !j.Left() && j.Events == 0 {
			continue // another worker delivers them
		}
		if i < 0 {
			relays = append(relays, report.RelayStatus{Name: j.Relay, Worker: j.Worker, Journal: j.ID, Dir: j.Dir,
				Events: j.Events, Bytes: j.Bytes, More: j.More, AtLeast: !j.Ended, Delivered: j.Delivered})
			i = len(relays) - 1
			relays[i].Left = j.Left()
		} else {
			// The files are here, so the figures are right.
			relays[i].Left = j.Left() && relays[i].Events > 0
		}
		r := &relays[i]
		r.Host, r.Own, r.GivenUp, r.Written = j.Host, j.Own, j.GivenUp, j.Written
		r.AtLeast = r.AtLeast && r.Left
		if r.Left && !r.GivenUp {
			r.Send = sendWith(j)
		}
	}
	return relays
}

// sendCommand returns the command that sends the events of a journal. The caller adds the address
// of the sink.
func (l Location) sendCommand(j engine.Journal) string {
	return l.relayCommand() + " --dir " + human.ShellWord(j.Dir) + " --relay " + j.Relay + " --drain --to URL"
}

// rowsCommand returns the command that sends the events of a relay whose records are rows. The caller
// adds the address of the sink.
func (l Location) rowsCommand(relay string) string {
	return l.relayCommand() + " --postgres " + human.ShellWord(l.Postgres.Where()) + " --relay " + relay + " --drain --to URL"
}

// relayCommand returns the beginning of a command that delivers events of a crawl in Redis.
func (l Location) relayCommand() string {
	line := "crawler relay --redis " + human.ShellWord(l.Redis.Where()) + " --name " + l.Redis.Name
	if l.Redis.CAFile != "" {
		line += " --redis-ca " + human.ShellWord(l.Redis.CAFile)
	}
	return line
}

// markRows marks the relay of this process as left if its events are rows, not all of them are
// delivered, and no other process runs the relay. It is called at the end of a run that was not
// stopped.
func (m *monitor) markRows(ctx context.Context) {
	if m.ses.plan.Events == nil || m.ses.plan.Redis == nil || m.ses.plan.Postgres == nil {
		return
	}
	m.readRelays(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.relays, func(r report.RelayStatus) bool { return r.Name == m.ses.plan.Events.Name && r.Journal == "" })
	if i < 0 || m.relays[i].Events == 0 || m.elsewhere {
		return
	}
	left := m.relays[i]
	if m.ownRelay != nil {
		left.Away = m.ownRelay.Away
	}
	left.Left, left.Own = true, true
	left.Send = m.ses.plan.Location().rowsCommand(left.Name)
	m.ownRelay = &left
}

// watchJournals reports the journal of this worker until ctx ends.
func (m *monitor) watchJournals(ctx context.Context) {
	for {
		m.reportJournal(ctx, false)
		select {
		case <-ctx.Done():
			return
		case <-time.After(journalEvery):
		}
	}
}

// reportJournal reports how far each relay has delivered the journal of this worker. If ended is
// true, it counts the events again, and forgets the journal for each relay that has delivered all
// of them.
func (m *monitor) reportJournal(ctx context.Context, ended bool) {
	boxes, err := m.ses.engine.Outboxes(ctx)
	if err != nil || len(boxes) != 1 || boxes[0].Journal == "" {
		return
	}
	box := boxes[0]
	names, _ := box.Names(ctx)
	if m.ses.plan.Events != nil && !slices.Contains(names, m.ses.plan.Events.Name) {
		names = append(names, m.ses.plan.Events.Name)
	}
	m.mu.Lock()
	known := slices.Clone(m.relays)
	if m.ownRelay != nil && m.ownRelay.Fault == "" {
		known = append([]report.RelayStatus{*m.ownRelay}, known...)
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, name := range names {
		var r report.RelayStatus
		i := slices.IndexFunc(known, func(r report.RelayStatus) bool { return r.Name == name && r.Journal == box.Journal })
		if i < 0 || ended {
			r = lagOf(ctx, box, name, time.Now())
		} else {
			r = known[i]
		}
		if ended && r.Events == 0 && !r.More && r.Fault == "" {
			err = errors.Join(err, m.ses.engine.ForgetJournal(ctx, box.Journal, name))
			continue
		}
		j := reportOf(ctx, box, &r)
		j.Worker, j.Own, j.Ended = m.ses.plan.Settings.Worker, m.ses.plan.Events != nil && m.ses.plan.Events.Name == name, ended
		if j.Worker == "" {
			j.Worker = box.Worker
		}
		err = errors.Join(err, m.ses.engine.ReportJournal(ctx, j))
	}
	if err != nil {
		m.ses.plan.Logger.Debug("the journal is not reported", slog.Any("err", err))
	}
}

// adoptJournals delivers the events of journals that no process delivers, until ctx ends: if their
// directories are on this machine, and if this worker has a relay of the same name.
func (m *monitor) adoptJournals(ctx context.Context) {
	if m.ses.plan.Events == nil {
		return
	}
	var adopted sync.Map
	var running sync.WaitGroup
	defer running.Wait()
	for {
		journals, _ := m.ses.engine.Journals(ctx)
		for _, j := range journals {
			box, ok := m.adoptable(j)
			if !ok {
				continue
			}
			if _, runs := adopted.LoadOrStore(j.ID, true); runs {
				continue
			}
			running.Go(func() {
				defer adopted.Delete(j.ID)
				m.adopt(ctx, j, box)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(adoptEvery):
		}
	}
}

// adoptable returns the outbox of a journal that this worker can deliver instead of a dead one.
func (m *monitor) adoptable(j engine.Journal) (box Outbox, ok bool) {
	if m.ses.plan.Events == nil || j.Relay != m.ses.plan.Events.Name || !j.Left() {
		return box, false
	}
	return m.ses.engine.OutboxOf(j)
}

// adopt delivers the events of a journal whose worker is dead, until none are left or ctx ends.
func (m *monitor) adopt(ctx context.Context, j engine.Journal, box Outbox) {
	m.ses.plan.Logger.Info("delivering the events of a dead worker", slog.String("worker", j.Worker), slog.String("dir", j.Dir))
	config := relayConfig(box, *m.ses.plan.Events)
	config.From = events.From{}
	err := deliverJournal(ctx, m.ses.engine, j, box, config)
	switch {
	case err == nil || ctx.Err() != nil || runsElsewhere(err):
	default:
		m.ses.plan.Logger.Warn("the events of a dead worker are not delivered", slog.String("dir", j.Dir), slog.Any("err", err))
	}
}

// deliverJournal delivers the events of a journal that no worker writes, and reports this to Redis.
// It forgets the journal when all its events are delivered.
func deliverJournal(ctx context.Context, e *engine.Engine, j engine.Journal, box Outbox, config events.Config) error {
	tell := func(ctx context.Context, s events.State) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		j.Delivered, j.Events, j.Bytes, j.More = string(s.Cursor), s.Lag.Events, s.Lag.Bytes, s.Lag.More
		if end, err := box.Find(ctx, time.Time{}); err == nil {
			j.Written = string(end)
		}
		_ = e.ReportJournal(ctx, j) // the next report says the same
	}
	onState := config.OnState
	var last events.State
	var mu sync.Mutex
	config.OnState = func(s events.State) {
		mu.Lock()
		last, j.Ended = s, false
		mu.Unlock()
		tell(ctx, s)
		if onState != nil {
			onState(s)
		}
	}
	err := events.Run(ctx, config, true)
	if runsElsewhere(err) {
		return err
	}
	finished := false
	if err == nil && ctx.Err() == nil {
		finished, err = settled(ctx, box, config.Name)
	}
	if finished {
		return e.ForgetJournal(ctx, j.ID, j.Relay)
	}
	if last.Name != "" { // this process has reported
		j.Ended = true
		tell(ctx, last)
	}
	return err
}

// settled reports whether a relay has delivered all events of an outbox.
func settled(ctx context.Context, box Outbox, relay string) (bool, error) {
	saved, _, err := box.Load(ctx, relay)
	if err != nil {
		return false, err
	}
	lag, err := box.Lag(ctx, saved.Cursor)
	return err == nil && lag.Events == 0 && !lag.More, err
}

// settleJournals is called at the end of a run. It delivers the events of journals that no process
// delivers, where it can. It waits until it is known whether the workers that still have events
// live: a live one reports its journal every second.
func (m *monitor) settleJournals(ctx context.Context) {
	m.reportJournal(context.WithoutCancel(ctx), true)
	first := make(map[string]int64)
	tried := make(map[string]bool)
	for {
		journals, err := m.ses.engine.Journals(ctx)
		if err != nil {
			return
		}
		doubt := false
		for _, j := range journals {
			key := j.ID + "/" + j.Relay
			if box, ok := m.adoptable(j); ok && !tried[key] {
				tried[key] = true
				m.adopt(ctx, j, box)
				continue
			}
			if at, seen := first[key]; !seen {
				first[key] = j.Reported
				doubt = doubt || !j.Left()
			} else if at == j.Reported && !j.Left() {
				doubt = true
			}
		}
		if !doubt || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleEvery):
		}
	}
}
