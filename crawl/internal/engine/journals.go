package engine

import (
	"path/filepath"

	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Journal says how far a relay has delivered the events in one worker's directory.
type Journal = redisstore.Journal

// OutboxOf implements Look.
func (e *sharedEngine) OutboxOf(j Journal) (box Outbox, found bool) {
	if j.Dir == "" || j.Dir == e.dir {
		return box, false
	}
	card, err := ReadWorkerCard(j.Dir)
	if err != nil || card == nil || card.Journal != j.ID || !card.sameCrawl(e.card()) || JournalOpen(j.Dir) {
		return box, false
	}
	return e.journalOf(j.Dir), true
}

// JournalOpen reports whether a process has the journal in dir open.
func JournalOpen(dir string) bool { return durable.LockedByOther(filepath.Join(dir, journalLock)) }
