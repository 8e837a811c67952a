package proofs

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestPostgresRace runs workers, each with its own relay, and at the same time four
// processes of `crawler reconcile`. Meanwhile Postgres is killed and restarted, so that
// messages to Postgres have to wait in Redis. Each URL must have one record, and nothing
// must be left to reconcile.
func TestPostgresRace(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	web := hardWeb(t, seed)
	r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 25)), "jsonl")
	blows := r.strike(web, sized(1, 5), sized(200, 2000), func() error {
		if err := r.database.Kill(); err != nil {
			return err
		}
		time.Sleep(time.Second)
		return r.database.Restart()
	})
	outage, over, failed := r.trouble, make(chan struct{}), make(chan error, 1)
	crawlOver := r.whenOver
	var end sync.Once
	r.whenOver = func() { crawlOver(); end.Do(func() { close(over) }) }
	var runs, unanswered int
	r.trouble = func() error {
		go func() { failed <- outage() }()
		runs, unanswered = r.reconcilers(4, over)
		return <-failed
	}
	r.work(sized(3, 8))
	figure(t, "reconciled", "%d times, %d of them in vain, beside %d outages", runs, unanswered, blows.Load())
	if runs == unanswered {
		t.Error("all runs of crawler reconcile failed, want some that succeed")
	}
	r.judgeExact(web)
}

// reconcilers runs `crawler reconcile` repeatedly, n processes at a time, until the
// channel over is closed. It returns the number of runs, and the number of runs that
// failed. Runs are expected to fail while Postgres is down.
func (r *exactCrawl) reconcilers(n int, over <-chan struct{}) (runs, unanswered int) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				e := r.ask("reconcile", "--json")
				mu.Lock()
				if runs++; e.code != 0 {
					unanswered++
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return runs, unanswered
}
