package crawl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/frontier"
)

// moody is an engine whose Counters returns stats and err, or hangs.
type moody struct {
	engine.Look
	stats frontier.Stats
	err   error
	hangs bool
}

func (e *moody) Counters(ctx context.Context) (frontier.Stats, error) {
	if e.hangs {
		<-ctx.Done()
		return frontier.Stats{}, ctx.Err()
	}
	return e.stats, e.err
}

// TestSilentStoreKeepsCounters: a store that cannot be read is reported as silent, with its
// last known counters.
func TestSilentStoreKeepsCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &moody{stats: frontier.Stats{Pages: 7}}
		ses := &session{plan: &Plan{}, engine: &engine.Engine{Look: store}}
		m := &monitor{ses: ses, counters: store.stats, counted: time.Now()}
		count := func(wantPages uint64, wantSilent time.Duration) {
			t.Helper()
			stats, silent, err := m.count(t.Context(), time.Now())
			if err != nil || stats.Pages != wantPages || silent != wantSilent {
				t.Errorf("%d pages, silent for %v (%v), want %d, %v", stats.Pages, silent, err, wantPages, wantSilent)
			}
		}
		count(7, 0)
		store.stats.Pages, store.err = 8, fmt.Errorf("dial: %w", frontier.ErrUnavailable)
		time.Sleep(12 * time.Second)
		count(7, 12*time.Second)
		store.err, store.hangs = nil, true
		count(7, 12*time.Second)
		count(7, 12*time.Second+answerTime) // the call before this one took answerTime
		store.hangs = false
		count(8, 0)
		store.err = errors.New("the disk is full")
		if _, _, err := m.count(t.Context(), time.Now()); !errors.Is(err, store.err) {
			t.Errorf("count of a store that fails: error %v, want %v", err, store.err)
		}
	})
}
