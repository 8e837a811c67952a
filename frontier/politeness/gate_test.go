package politeness_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// TestGateKeepsTheLongerDelay: between the requests of two workers is the longer of both delays, and a host that the gate
// does not know waits as if it was requested when the gate was made.
func TestGateKeepsTheLongerDelay(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	g := politeness.NewGate(begun)
	a, b := g.Join(), g.Join()
	wants := func(w *politeness.Pass, delay float64, now, wait float64) {
		t.Helper()
		if got := w.Start("h", time.Duration(delay*float64(time.Second)), 0, at(now), true); got != time.Duration(wait*float64(time.Second)) {
			t.Fatalf("at %v s the wait is %v, want %v s", now, got, wait)
		}
	}
	wants(a, 1, 0.25, 0.75)
	wants(a, 1, 1, 0)
	wants(b, 3, 1.5, 2.5) // its own delay is longer
	wants(a, 1, 2, 2)     // b waits already
	wants(b, 3, 4, 0)
	wants(a, 1, 5, 2) // the delay of b
	if got := a.Wait("other", 10*time.Second, at(5)); got != 5*time.Second {
		t.Errorf("an unknown host waits %v, want 5 s", got)
	}
	var none *politeness.Pass
	if now := at(0); none.Start("h", time.Hour, 0, now, true) != 0 || none.Wait("h", time.Hour, now) != 0 || !none.Reserve("h", time.Hour, now).Equal(now) {
		t.Error("a nil Pass waits")
	}
}

// TestGateReserve: requests that waited for their connections are written as far apart as the delay of others wants.
func TestGateReserve(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	g := politeness.NewGate(begun)
	a, b := g.Join(), g.Join()
	now := begun.Add(time.Minute)
	first := a.Reserve("h", time.Second, now)
	second := b.Reserve("h", time.Second, now.Add(100*time.Millisecond))
	third := b.Reserve("h", time.Second, second) // its own delay is not the gate's matter
	if !first.Equal(now) || second.Sub(first) != time.Second || !third.Equal(second) {
		t.Errorf("written at %v, %v, %v", first, second, third)
	}
}

// TestGateLetsEachIn: several workers with different delays and random lateness request one host. No two requests of
// different workers are closer than the longer of their delays, and none of the workers starves.
func TestGateLetsEachIn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			now := time.Unix(1000, 0)
			g := politeness.NewGate(now)
			delays := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second}
			passes, own, counts := make([]*politeness.Pass, len(delays)), make([]time.Time, len(delays)), make([]int, len(delays))
			for i := range passes {
				passes[i] = g.Join()
			}
			last, by := now, -1
			for range 200_000 { // 10 ms each
				now = now.Add(10 * time.Millisecond)
				i := random.IntN(len(passes))
				wait := max(own[i].Sub(now), 0)
				if passes[i].Start("h", delays[i], wait, now, wait == 0) > 0 || wait > 0 {
					continue
				}
				if by >= 0 && by != i && now.Sub(last) < max(delays[i], delays[by]) {
					t.Fatalf("worker %d started %v after worker %d", i, now.Sub(last), by)
				}
				last, by, own[i] = now, i, now.Add(delays[i])
				counts[i]++
			}
			for i, n := range counts {
				if n < 10 {
					t.Errorf("worker %d started %d requests in 2,000 s: %v", i, n, counts)
				}
			}
		})
	}
}
