package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// crawl is a Store as the suite wants it.
type crawl struct {
	*Store
	t testing.TB
}

func (crawl) LinksFirst()  {}
func (crawl) ForgetsDone() {}
func (crawl) KeepsLeases() {}

// Reopen implements frontiertest.Reopener.
func (c crawl) Reopen() (frontiertest.Crawl, error) {
	if err := c.Close(); err != nil {
		return nil, err
	}
	return c.Crash()
}

// Crash implements frontiertest.Reopener: the receiver is only not used any more.
func (c crawl) Crash() (frontiertest.Crawl, error) {
	cfg := c.cfg
	cfg.FilterKeys, cfg.FPR, cfg.Partitions = 0, 0, 0
	return openAgain(c.t, cfg), nil
}

// crawlsOn returns what opens crawls on a server or cluster for the suite.
func crawlsOn(at redis.UniversalOptions, partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
	return func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		return openCrawl(t, at, partitions, opt)
	}
}

var lastCrawl atomic.Int64

// openCrawl opens a new crawl as the suite asks for it.
func openCrawl(t testing.TB, at redis.UniversalOptions, partitions int, opt frontiertest.Options) frontiertest.Crawl {
	cfg := Config{
		SeenCache: 1 << 12, // a model leaves hundreds of stores behind that crashed
		Redis:     &at, Name: fmt.Sprintf("suite-%d", lastCrawl.Add(1)),
		FilterKeys: opt.FilterKeys, FPR: 1e-9, NoGrowth: opt.FilterKeys > 0, Partitions: partitions,
		Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, MaxPerHost: opt.MaxPerHost, Now: opt.Now, OpenOutput: func(frontier.Identity, frontier.Position) (frontier.Output, error) { return opt.Output, nil },
		ExactSet: opt.ExactSet,
	}
	if cfg.FilterKeys == 0 {
		cfg.FilterKeys = 100_000
	} else {
		cfg.FPR = 0.01
	}
	return openAgain(t, cfg)
}

// openAgain opens a crawl. What other nodes answered counts as durable at once:
// the suite breaks no node.
func openAgain(t testing.TB, cfg Config) crawl {
	if cfg.Delay == 0 {
		cfg.Delay = NoDelay
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r, err := s.recount(context.WithoutCancel(t.Context()))
		if err != nil && !errors.Is(err, frontier.ErrClosed) {
			t.Error(err)
		} else if wrong := contradictions(&r); err == nil && len(wrong) > 0 {
			t.Errorf("%s: %q", cfg.Name, wrong)
		}
		if stray, failed := strayPrints(context.WithoutCancel(t.Context()), s); cfg.ExactSet && err == nil && len(stray) > 0 {
			t.Errorf("%s: exact items that wait or do not: %q, %v", cfg.Name, stray, failed)
		}
		_ = s.Close()
	})
	s.durable = 0
	return crawl{s, t}
}

// TestSuite holds crawls on one server to the contract. Their user may run no
// command but those that a Store asks for at its start, on no keys but a crawl's.
func TestSuite(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": crawlUser(commands)}})
	for _, partitions := range suitePartitions() {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			frontiertest.Run(t, crawlsOn(asCrawlUser(server.Addr()), partitions))
		})
	}
}

// calm is for clusters whose nodes nobody breaks: one that does not get to run for
// a second, on a busy machine, has not failed.
const calm = time.Minute

// TestSuiteOnCluster holds crawls on a cluster of three primaries to it.
func TestSuiteOnCluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	for _, partitions := range suitePartitions() {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			frontiertest.Run(t, crawlsOn(redis.UniversalOptions{Addrs: cluster.Addrs()}, partitions))
		})
	}
}

// suitePartitions are the numbers of partitions to run the suite with. Each case
// makes a crawl, and 256 partitions take a while to make.
func suitePartitions() []int {
	if *proof {
		return []int{1, 4, 256}
	}
	return []int{4}
}

// TestModel makes random calls and compares with a map.
func TestModel(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	model(t, redis.UniversalOptions{Addrs: []string{server.Addr()}})
}

func TestModelOnCluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	model(t, redis.UniversalOptions{Addrs: cluster.Addrs()})
}

func model(t *testing.T, at redis.UniversalOptions) {
	runs, steps := 3, 300
	if *proof {
		runs, steps = 30, 2000
	}
	first, runs := suite.FirstSeed(uint64(*seed), runs)
	for i := range runs {
		frontiertest.Model(t, crawlsOn(at, 8), first+uint64(i), steps)
		if t.Failed() {
			break
		}
	}
}

func BenchmarkStore(b *testing.B) {
	server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
	frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
		opt.Now = nil // the server's clock
		return openCrawl(b, redis.UniversalOptions{Addrs: []string{server.Socket()}}, 256, opt)
	})
}

func BenchmarkStoreOnCluster(b *testing.B) {
	cluster := servers.RedisCluster(b, servers.ClusterOptions{Node: servers.RedisOptions{AppendOnly: true}})
	frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
		opt.Now = nil
		return openCrawl(b, redis.UniversalOptions{Addrs: cluster.Addrs()}, 256, opt)
	})
}
