package frontiertest

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

func openMemory(opt Options) *Memory {
	cfg := MemoryConfig{
		Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, MaxPerHost: opt.MaxPerHost, SeedsUnlimited: opt.SeedsUnlimited, Now: opt.Now, Output: opt.Output,
	}
	if opt.Policy != nil {
		cfg.Policy = opt.Policy.Load
	}
	m := NewMemory(cfg)
	if opt.Capacity > 0 { // a filter so small that the cases overfill it
		m.filter = bloom.NewWithEstimates(uint(opt.Capacity), 0.01)
	}
	return m
}

func TestMemoryPassesSuite(t *testing.T) {
	Run(t, func(_ *testing.T, opt Options) Crawl { return openMemory(opt) })
}

func openPagesOnly(_ *testing.T, opt Options) Crawl {
	m := openMemory(opt)
	m.cfg.PagesOnly = true
	return m
}

func TestPagesOnlyPassesSuite(t *testing.T) {
	Run(t, openPagesOnly)
	for seed := range uint64(10) {
		Model(t, openPagesOnly, seed, 500)
	}
}

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

func TestMemoryModel(t *testing.T) {
	runs, steps := 20, 500
	if *proof {
		runs, steps = 100, 3000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		Model(t, func(_ *testing.T, opt Options) Crawl { return openMemory(opt) }, first+uint64(i), steps)
		if t.Failed() {
			break
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	Bench(b, func(_ *testing.B, opt Options) Crawl {
		opt.Capacity = 0
		return openMemory(opt)
	})
}

func TestMemoryUsesTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryConfig{LeaseTTL: time.Minute, Delay: time.Second})
		late := page("a.test", 1)
		late.Delay = time.Hour
		if _, err := m.Add(t.Context(), []frontier.Offer{late}); err != nil {
			t.Fatal(err)
		}
		request := frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}}
		grant, err := m.Lease(t.Context(), request)
		if err != nil || len(grant.Leases) > 0 || grant.Wait != time.Hour {
			t.Fatalf("Lease = %+v, %v, want a wait of 1h", grant, err)
		}
		time.Sleep(grant.Wait)
		if grant, err = m.Lease(t.Context(), request); err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease after the wait = %+v, %v, want one lease", grant, err)
		}
	})
}
