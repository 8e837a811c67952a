package engine

import (
	"context"
	"path/filepath"

	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Journal says how far a relay has delivered the events in one worker's directory.
type Journal = redisstore.Journal

// Journals returns the journals whose events are not wholly delivered, as Redis knows them. It
// returns none for an embedded crawl.
func (e *Engine) Journals(ctx context.Context) ([]Journal, error) {
	if e.shared == nil {
		return nil, nil
	}
	return e.shared.Store.Journals(ctx)
}

// ReportJournal stores j in Redis. It does nothing for an embedded crawl.
func (e *Engine) ReportJournal(ctx context.Context, j Journal) error {
	if e.shared == nil {
		return nil
	}
	return e.shared.Store.ReportJournal(ctx, j)
}

// ForgetJournal removes a journal from Redis, because its events are delivered.
func (e *Engine) ForgetJournal(ctx context.Context, id, relay string) error {
	if e.shared == nil {
		return nil
	}
	return e.shared.Store.ForgetJournal(ctx, id, relay)
}

// OutboxOf returns the outbox of a journal of this crawl whose directory is on this machine, under
// the path that j names. The result found is false if it is not there, or if a process has it open.
func (e *Engine) OutboxOf(j Journal) (box Outbox, found bool) {
	if e.shared == nil || j.Dir == "" || j.Dir == e.shared.dir {
		return box, false
	}
	card, err := ReadWorkerCard(j.Dir)
	if err != nil || card == nil || card.Journal != j.ID || !card.sameCrawl(e.shared.card()) || JournalOpen(j.Dir) {
		return box, false
	}
	return e.shared.journalOf(j.Dir), true
}

// JournalOpen reports whether a process has the journal in dir open.
func JournalOpen(dir string) bool { return durable.LockedByOther(filepath.Join(dir, journalLock)) }
