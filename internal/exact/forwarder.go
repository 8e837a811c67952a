package exact

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

const (
	tidyEvery  = 10 * time.Second // between two searches for stale and expired keys
	probeEvery = time.Second      // between two attempts while the set or the queue is away
)

// Queue is the part of a store that a Forwarder needs.
type Queue interface {
	// Waits reports for each key, in order, whether its item is queued or leased. An
	// item stops waiting in the step that completes it.
	Waits(ctx context.Context, keys []ItemKey) ([]bool, error)
	// AddDecided does what frontier.Store.Add does, with the set's decisions in the order of the offers.
	AddDecided(ctx context.Context, offers []frontier.Offer, decided []Decision) ([]frontier.Verdict, error)
}

// ItemKey names an item in a queue.
type ItemKey struct {
	Host        string
	Fingerprint bloomstore.Fingerprint
}

// Forwarder queues new keys that their callers did not queue, and sweeps keys whose windows are
// over. Any number of forwarders can run at once, in any processes.
type Forwarder struct {
	*Client
	Queue Queue
	Host  func(url string) (string, error) // the host key of a canonical URL
	Batch int                              // number of keys in one step; 0 means 500
}

func (f *Forwarder) batch() int { return cmp.Or(f.Batch, 500) }

// Run does the work of the forwarder until ctx ends. While the set or the queue is away, it
// tries again every second: if there are no other calls, only a forwarder can find out that the set is back.
func (f *Forwarder) Run(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var tidied time.Time
	interrupted := false
	for {
		if now := time.Now(); interrupted || now.Sub(tidied) >= tidyEvery || f.Set.Away() {
			tidied = now
			err := f.Tidy(ctx)
			if ctx.Err() != nil {
				return nil
			}
			f.log(ctx, err, &interrupted)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// log logs that the forwarder is interrupted, or that it continues. The variable interrupted is
// true if the previous step failed. log updates it.
func (f *Forwarder) log(ctx context.Context, err error, interrupted *bool) {
	switch log := f.Log; {
	case log == nil:
	case err != nil && !*interrupted:
		log.LogAttrs(ctx, slog.LevelWarn, "forwarder of exact keys is interrupted and will try again", slog.Any("err", err))
	case err == nil && *interrupted:
		log.LogAttrs(ctx, slog.LevelInfo, "forwarder of exact keys continues")
	}
	*interrupted = err != nil
}

// Tidy offers stale keys again and deletes expired keys. Run calls it regularly. If the queue
// has been empty for a minute although keys wait in the set, Tidy calls Reconcile, because the
// queue might have lost these keys.
func (f *Forwarder) Tidy(ctx context.Context) error {
	offer := func(entries []Entry) error {
		_, err := f.offerAgain(ctx, entries, false)
		return err
	}
	if err := f.eachStale(ctx, f.batch(), offer); err != nil {
		return err
	}
	if f.idleLonger(staleAfter) {
		if _, err := f.Reconcile(ctx, false); err != nil {
			return err
		}
	}
	return f.sweep(ctx)
}

// sweep deletes expired keys from the set until none is left. It deletes them in small batches, so
// that no call of the set takes long.
func (f *Forwarder) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		swept, _, err := f.Set.Sweep(ctx, f.batch())
		if err != nil {
			return fmt.Errorf("exact: sweep: %w", err)
		}
		if swept < f.batch() {
			return nil
		}
	}
	return nil
}
