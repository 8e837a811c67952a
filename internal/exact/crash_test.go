package exact_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// points are the crash points of docs/design/exact-urls.md.
var points = []string{"decided", "offered", "marked", "recorded", "finished", "completed"}

// TestCrashPoints kills the process at each crash point. The first run of a point kills the
// process when it reaches the point for the first time, the next run at the second time, and
// so on. Every page must have a record in its first round, and none in another round.
func TestCrashPoints(t *testing.T) {
	passings := 6
	if *proof {
		passings = 60
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			for passing := range passings {
				w := newWorld(t, 40, exact.Windows{})
				passed := 0
				w.crash = func(at string) {
					if at != point {
						return
					}
					if passed++; passed == passing+1 {
						panic(died{at})
					}
				}
				w.run()
				w.verify()
				if passed == 0 {
					t.Fatal("the crash point was never reached")
				}
				if t.Failed() {
					t.Fatalf("failed after a crash when the point had been passed %d times", passing)
				}
			}
		})
	}
}

// TestAwayAtEachCall makes each call to the set fail once before it takes effect, and
// once after.
func TestAwayAtEachCall(t *testing.T) {
	for _, rows := range []bool{false, true} {
		for _, op := range []string{"decide", "queued", "finish", "stale", "waiting"} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("rows=%t/%s/late=%t", rows, op, late), func(t *testing.T) {
					for fail := range 12 {
						w := newWorld(t, 40, exact.Windows{})
						w.rows = rows
						w.weak.fails = func(call string, n int) (before, after bool) {
							hit := call == op && n == fail
							return hit && !late, hit && late
						}
						w.run()
						w.verify()
						if t.Failed() {
							t.Fatalf("failed in the run in which call %d of %s fails", fail, op)
						}
					}
				})
			}
		}
	}
}

// TestCrashesAndOutages kills processes and makes the set unavailable, both at
// random.
func TestCrashesAndOutages(t *testing.T) {
	runs := 60
	if *proof {
		runs = 5000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		seed := first + uint64(i)
		rng := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t, 60, exact.Windows{})
		w.rows = rng.IntN(4) == 0
		deaths := rng.Float64() * 0.1
		w.crash = func(at string) {
			if rng.Float64() < deaths {
				panic(died{at})
			}
		}
		failing, away := rng.Float64()*0.4, 0
		w.weak.fails = func(string, int) (before, after bool) {
			if away--; away > 0 {
				return true, false
			}
			if rng.Float64() < failing/20 {
				away = rng.IntN(30)
			}
			return rng.Float64() < failing/2, rng.Float64() < failing/2
		}
		w.run()
		w.verify()
		if t.Failed() {
			t.Fatalf("replay with -seed=%d", seed)
		}
	}
}

// TestForwardersAndReconcilersRace runs four forwarders and four reconcilers together with eight
// workers. The set is unavailable now and then. Every page must have a
// record in its first round, and none in another round.
func TestForwardersAndReconcilersRace(t *testing.T) {
	rounds := 3
	if *proof {
		rounds = 200
	}
	for range rounds {
		w := newWorld(t, 200, exact.Windows{})
		w.weak.fails = func(_ string, call int) (before, after bool) { return call%29 > 25, call%31 == 7 }
		w.start()
		w.seed()
		var workers, others sync.WaitGroup
		stop := make(chan struct{})
		for range 8 {
			workers.Go(func() {
				for !w.work() {
				}
			})
		}
		for range 4 {
			others.Go(func() { w.repeatUntil(stop, w.forward) })
			others.Go(func() {
				w.repeatUntil(stop, func() {
					w.inOneMoment(func() { _, _ = w.forwarder.Reconcile(t.Context(), false) })
				})
			})
		}
		workers.Wait()
		close(stop)
		others.Wait()
		w.weak.fails = nil
		for !w.work() { // completes items that a reconciler has queued at the end
			w.forward()
		}
		w.verify()
		if t.Failed() {
			return
		}
	}
}

// repeatUntil calls step repeatedly, until the channel stop is closed.
func (w *world) repeatUntil(stop chan struct{}, step func()) {
	for {
		select {
		case <-stop:
			return
		default:
			step()
		}
	}
}
