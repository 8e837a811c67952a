package localstore

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

// reopener is a Store that the suite can close or kill, and open again.
type reopener struct {
	*Store
	cfg Config
}

func (r *reopener) Reopen() (frontiertest.Crawl, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	return r.again()
}

var errKilled = errors.New("killed")

// Crash stops the store at once, so that it writes nothing more to the disk.
func (r *reopener) Crash() (frontiertest.Crawl, error) {
	r.guard.fail(errKilled)
	if err := r.Close(); err == nil {
		return nil, errors.New("a killed store was closed without error")
	}
	return r.again()
}

func (r *reopener) again() (frontiertest.Crawl, error) {
	s, err := Open(r.cfg)
	if err != nil {
		return nil, err
	}
	r.Store = s
	return r, nil
}

func openSuite(t testing.TB, fs vfs.FS, dir string, opt frontiertest.Options) frontiertest.Crawl {
	return openWith(t, fs, dir, opt, func(*Config) {})
}

// every is a policy with a delay.
func every(delay time.Duration) func() *policy.Policy {
	return policy.NewLive(&policy.Policy{Politeness: politeness.Policy{Delay: delay}}).Load
}

// openWith is like openSuite, but the function change can modify the
// configuration.
func openWith(t testing.TB, fs vfs.FS, dir string, opt frontiertest.Options, change func(*Config)) frontiertest.Crawl {
	cfg := Config{
		Dir: dir, FS: fs, LeaseTTL: opt.LeaseTTL, Now: opt.Now,
		Filter:     membits.Config{Capacity: 100_000},
		OpenOutput: func(frontier.Identity, frontier.Position) (frontier.Output, error) { return opt.Output, nil },
		Policy: policy.NewLive(&policy.Policy{
			Politeness: politeness.Policy{Delay: opt.Delay}, MaxPerHost: opt.MaxPerHost, SeedsUnlimited: opt.SeedsUnlimited,
		}).Load,
	}
	if opt.Capacity > 0 {
		cfg.Filter = membits.Config{Capacity: opt.Capacity, Growth: membits.GrowthOff, Shards: 1}
	}
	if opt.Policy != nil {
		cfg.Policy = opt.Policy.Load
	}
	change(&cfg)
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &reopener{Store: s, cfg: cfg}
	t.Cleanup(func() {
		if err := r.Close(); err != nil && r.Err() == nil {
			t.Errorf("Close: %v", err)
		}
		s, err := Open(cfg) // nothing is leased now
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range checkTables(s) {
			t.Error(fault)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestSuiteInMemory(t *testing.T) {
	t.Parallel()
	frontiertest.Run(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		return openSuite(t, vfs.NewMem(), "crawl", opt)
	})
}

func TestSuiteOnDisk(t *testing.T) {
	t.Parallel()
	frontiertest.Run(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		return openSuite(t, nil, t.TempDir(), opt)
	})
}

func TestModel(t *testing.T) {
	t.Parallel()
	runs, steps := 10, 400
	if *proof {
		runs, steps = 50, 3000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range uint64(runs) {
		frontiertest.Model(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
			if (first+i)%5 == 0 {
				return openSuite(t, nil, t.TempDir(), opt)
			}
			return openSuite(t, vfs.NewMem(), "crawl", opt)
		}, first+i, steps)
		if t.Failed() {
			break
		}
	}
}

func TestSuiteOfPolicies(t *testing.T) {
	t.Parallel()
	frontiertest.RunPolicies(t, func(t *testing.T, opt frontiertest.Options, present func() *policy.Policy) frontiertest.Crawl {
		return openWith(t, vfs.NewMem(), "crawl", opt, func(cfg *Config) { cfg.Policy = present })
	})
}
