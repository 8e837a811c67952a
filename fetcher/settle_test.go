package fetcher_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// settled is a sink that counts the calls of Settle.
type settled struct {
	*sink
	took, lost map[string]int // calls of Settle, by item and lease
}

var _ record.Settler = (*settled)(nil)

func (*settled) Void(*record.Record) error { return nil }

func (s *settled) Settle(item bloomstore.Fingerprint, lease frontier.LeaseID, took bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := fmt.Sprintf("%x %x", item, lease); took {
		s.took[key]++
	} else {
		s.lost[key]++
	}
}

// TestSettleIsCalledOnce: Settle is called once for each completion. Its argument took
// says whether the store confirmed the completion. This also holds if the store answered
// only a repeated call.
func TestSettleIsCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		cfg := w.config()
		sink := &settled{w.sink, make(map[string]int), make(map[string]int)}
		cfg.Sink = sink
		cfg.Store = frontiertest.NewFaulty(w.store, func(at frontiertest.Op, call int) frontiertest.Fault {
			switch {
			case at != frontiertest.OpComplete:
			case call == 7:
				return frontiertest.Fault{Err: frontier.ErrLeaseLost, Late: true}
			case call%3 == 0:
				return frontiertest.Fault{Err: frontier.ErrUnavailable, Late: call%2 == 0}
			}
			return frontiertest.Fault{}
		})
		c := w.worker(cfg)
		for i := range 50 {
			w.seed(c, fmt.Sprintf("http://a.test/%d", i))
		}
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		lost := 0
		for _, r := range w.sink.records {
			key := fmt.Sprintf("%x %x", r.Item, r.Lease)
			if sink.took[key]+sink.lost[key] != 1 {
				t.Errorf("%s: Settle was called %d times with took, %d times without, want once in all",
					r.URL, sink.took[key], sink.lost[key])
			}
			lost += sink.lost[key]
		}
		if lost != 1 || len(w.sink.records) != 50 {
			t.Errorf("Settle was called without took for %d of %d records, want 1 of 50", lost, len(w.sink.records))
		}
	})
}
