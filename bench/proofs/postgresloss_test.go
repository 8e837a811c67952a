package proofs

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// lossLease is the lease time of crawls in which many leases expire.
const lossLease = 3 * time.Second

// TestPostgresFrozen pauses workers (SIGSTOP) for longer than their leases last, and then
// continues them. By then, other workers have leased the URLs of the paused workers.
// Every exact key must have one record.
func TestPostgresFrozen(t *testing.T) {
	eachSink(t, func(t *testing.T, sink string) {
		seed := newSeed(t)
		web := hardWeb(t, seed)
		r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 22)), sink, "--lease-time", ms(lossLease))
		const n = 3
		workers := make(chan *worker, n)
		r.joined = func(w *worker) { workers <- w }
		times := sized(1, 20)
		blows := r.strike(web, times, sized(200, 400), func() error {
			w := <-workers
			workers <- w // workers take turns
			if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(lossLease + time.Duration(r.rng.Int64N(int64(time.Second))))
			return w.cmd.Process.Signal(syscall.SIGCONT)
		})
		r.work(n)
		r.judgeExact(web)
		judgeBlows(t, blows, times)
	})
}
