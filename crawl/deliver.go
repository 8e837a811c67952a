package crawl

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/events"
)

// deliver starts the relay of Config.Events. At the end of the run, the caller must call
// finish. The function finish stops the relay. Then it delivers the remaining events, until
// none are left or its own context ends.
func (m *monitor) deliver(ctx context.Context) (finish func(ctx context.Context)) {
	if m.ses.plan.Events == nil {
		return func(context.Context) {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { m.relay(ctx, false) })
	running.Go(func() { m.adoptJournals(ctx) })
	return func(ctx context.Context) {
		stop()
		running.Wait()
		m.relay(ctx, true)
	}
}

// finishDelivery delivers the remaining events for at most Settings.Grace. If ctx ends
// earlier, the events are left to the next run, or to another relay of the same name.
func (m *monitor) finishDelivery(ctx context.Context, finish func(context.Context), ending *ending) {
	limited, cancel := context.WithTimeout(ctx, max(m.ses.plan.Settings.Grace, 0))
	defer cancel()
	within, release := ending.limit(ctx)
	defer release()
	defer context.AfterFunc(within, cancel)()
	finish(limited)
}

// finishJournals settles the journals that Redis knows: see settleJournals. If the run was
// stopped, finishJournals only reports the journal of this worker.
func (m *monitor) finishJournals(ctx context.Context, ending *ending, natural bool) {
	within, release := ending.limit(ctx)
	defer release()
	if !natural {
		m.reportJournal(within, true)
		return
	}
	limited, cancel := context.WithTimeout(within, max(m.ses.plan.Settings.Grace, minSettle))
	defer cancel()
	m.markRows(limited)
	m.settleJournals(limited)
}

// minSettle is the shortest time for settleJournals. It is long enough to see that a worker is
// dead.
const minSettle = 15 * time.Second

// The shortest and the longest pause before the relay of a worker tries again.
const (
	minRelayPause = time.Second
	maxRelayPause = 30 * time.Second
)

// relay delivers the events of this process. It tries again after any error, and the
// crawl goes on meanwhile. If several workers share an outbox and their relays have
// the same name, one of them delivers and the others stand by. If this process was silent for
// too long, another one takes over the relay, and this one stands by.
func (m *monitor) relay(ctx context.Context, drain bool) {
	said := ""
	for pause := minRelayPause; ; pause = min(2*pause, maxRelayPause) {
		err := m.relayOnce(ctx, drain)
		if err == nil || ctx.Err() != nil {
			return
		}
		standby := runsElsewhere(err)
		if standby && drain {
			return // the other process delivers the remaining events
		}
		if text := err.Error(); text != said {
			said = text
			if standby {
				m.ses.plan.Logger.Info("the relay stands by: another process runs it", slog.String("relay", m.ses.plan.Events.Name))
			} else {
				m.ses.plan.Logger.Error("the relay does not deliver", slog.String("relay", m.ses.plan.Events.Name), slog.Any("err", err))
			}
		}
		if standby {
			pause = minRelayPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (m *monitor) relayOnce(ctx context.Context, drain bool) error {
	boxes, err := m.ses.engine.Outboxes(ctx)
	if err != nil {
		return err
	}
	box := boxes[0] // a process that crawls has exactly one
	config := relayConfig(box, *m.ses.plan.Events)
	config.OnState = func(s events.State) {
		m.noteRelay(&report.RelayStatus{Name: s.Name, Worker: box.Worker, Events: s.Lag.Events, Bytes: s.Lag.Bytes, More: s.Lag.More,
			Seconds: ageOf(s.Lag, time.Now()), Dead: s.Dead, Away: s.Away, Journal: box.Journal, Dir: box.Dir, Delivered: string(s.Cursor)})
		if m.ses.plan.Events.OnState != nil {
			m.ses.plan.Events.OnState(s)
		}
	}
	err = events.Run(ctx, config, drain)
	m.mu.Lock()
	m.elsewhere = runsElsewhere(err)
	m.mu.Unlock()
	switch {
	case runsElsewhere(err):
		m.noteRelay(nil) // another process runs the relay, and only that process knows its state
	case err != nil:
		m.noteRelay(&report.RelayStatus{Name: config.Name, Worker: box.Worker, Journal: box.Journal, Dir: box.Dir, Fault: err.Error()})
	}
	return err
}

// runsElsewhere reports whether a relay ended because another process runs it.
func runsElsewhere(err error) bool {
	return errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrSuperseded)
}

// noteRelay stores the state of this process's relay, for the method lags.
func (m *monitor) noteRelay(own *report.RelayStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ownRelay = own
}

// relaysEvery is how often the lag of all relays is read.
const relaysEvery = 5 * time.Second

// watchRelays reads the lag of all relays until ctx ends.
func (m *monitor) watchRelays(ctx context.Context) {
	for {
		begun := time.Now()
		m.readRelays(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(relaysEvery, 20*time.Since(begun))): // counting can take long
		}
	}
}

// readRelays reads the lag of all relays. If that fails, m.relays is not changed.
func (m *monitor) readRelays(ctx context.Context) {
	relays, err := (&Outboxes{list: m.ses.engine.Outboxes}).readRelays(ctx)
	if err != nil {
		return
	}
	journals, err := m.ses.engine.Journals(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relays = relays
	if err == nil {
		m.journals = journals
	}
}

// lags returns the lag of all relays from the last call of readRelays. For the relay of this
// process it returns the current lag.
func (m *monitor) lags() []report.RelayStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	relays := slices.Clone(m.relays)
	if m.ownRelay != nil {
		own := func(r report.RelayStatus) bool { return r.Title() == m.ownRelay.Title() }
		if i := slices.IndexFunc(relays, own); i >= 0 {
			relays[i] = *m.ownRelay
		} else {
			relays = append(relays, *m.ownRelay)
		}
	}
	return addJournals(relays, m.journals, m.ses.plan.Location().sendCommand)
}

// lags returns the lag of all relays. It returns nil if the outboxes cannot be read, for
// example because the records are in a Postgres that the location does not name.
func (ses *session) lags(ctx context.Context) []report.RelayStatus {
	if ses.monitor != nil {
		return ses.monitor.lags()
	}
	relays, err := outboxesOf(ses.engine, ses.plan.Location(), nil).Relays(ctx)
	if err != nil {
		ses.plan.Logger.Debug("the lag of relays is not known", slog.Any("err", err))
	}
	return relays
}
