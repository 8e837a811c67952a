package proofs

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lose makes Redis lose all its data. It either sends the command FLUSHALL, or kills the
// server and removes the files in dir.
func (r *exactCrawl) lose(dir string) error {
	if r.rng.IntN(2) == 0 {
		return r.queue.Client().FlushAll(r.t.Context()).Err()
	}
	if err := r.queue.Kill(); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.RemoveAll(file); err != nil {
			return err
		}
	}
	return r.queue.Restart()
}

// TestPostgresRedisLost makes Redis lose everything in the middle of a crawl. The workers
// report the loss and end. `crawler rebuild` must restore the crawl from Postgres and the
// records so completely that `crawler reconcile` has nothing to add. Every exact key must
// have one record.
func TestPostgresRedisLost(t *testing.T) {
	eachSink(t, func(t *testing.T, sink string) {
		seed := newSeed(t)
		web := hardWeb(t, seed)
		r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 23)), sink, "--lease-time", ms(lossLease))
		r.mayFail = func(stderr string) bool { return strings.Contains(stderr, "filter lost") }
		losses, times := 0, sized(1, 20)
		for range times {
			blows := r.strike(web, 1, sized(300, 1600), func() error { return r.lose(r.queueDir) })
			r.work(2)
			if blows.Load() == 0 {
				break
			}
			losses++
			e := r.ask("rebuild", "--dir", r.workersDir)
			if e.code != 0 {
				t.Fatalf("crawler rebuild: exit code %d\n%s%s", e.code, e.stdout, e.stderr)
			}
			figure(t, "rebuilt", "%s", strings.Join(strings.Fields(e.stdout), " "))
			if again := r.reconcile(); again.Added != 0 {
				t.Errorf("reconcile after a rebuild: %+v, want 0 added", again)
			}
		}
		r.trouble, r.over = nil, false
		r.work(2)
		figure(t, "losses", "%d, of which %d workers took note", losses, r.gaveUp)
		if losses < times {
			t.Errorf("the crawl ended after %d losses, want at least %d", losses, times)
		}
		r.judgeExact(web)
	})
}
