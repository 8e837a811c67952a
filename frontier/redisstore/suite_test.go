package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// crawl adapts a Store to the suite, which is package frontiertest.
type crawl struct {
	*Store
	t testing.TB
}

func (crawl) LinksFirst()  {}
func (crawl) ForgetsDone() {}
func (crawl) KeepsLeases() {}

// AnswersExpire implements frontiertest.AnswersExpire.
func (crawl) AnswersExpire() {}

// LimitsPagesOnly implements frontiertest.LimitsPagesOnly.
func (crawl) LimitsPagesOnly() bool { return true }

// Reopen implements frontiertest.Reopener.
func (c crawl) Reopen() (frontiertest.Crawl, error) {
	if err := c.Close(); err != nil {
		return nil, err
	}
	return c.Crash()
}

// Crash implements frontiertest.Reopener. It does not close c, and the suite does not
// use c afterwards.
func (c crawl) Crash() (frontiertest.Crawl, error) {
	cfg := c.cfg
	cfg.Capacity, cfg.FPR, cfg.Partitions = 0, 0, 0
	return openAgain(c.t, cfg), nil
}

// crawlsOn returns a function that opens crawls on a server or cluster for the
// suite.
func crawlsOn(at redis.UniversalOptions, partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
	return func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		return openCrawl(t, at, partitions, opt)
	}
}

var lastCrawl atomic.Int64

// every is a policy with a delay.
func every(delay time.Duration) func() *policy.Policy {
	return policy.NewLive(&policy.Policy{Politeness: politeness.Policy{Delay: delay}}).Load
}

// openCrawl opens a new crawl with the suite's options.
func openCrawl(t testing.TB, at redis.UniversalOptions, partitions int, opt frontiertest.Options) frontiertest.Crawl {
	return openAgain(t, suiteConfig(at, partitions, opt))
}

func suiteConfig(at redis.UniversalOptions, partitions int, opt frontiertest.Options) Config {
	cfg := Config{
		SeenCache: 1 << 12, // small, because a model leaves hundreds of crashed stores open
		Redis:     &at, Name: fmt.Sprintf("suite-%d", lastCrawl.Add(1)),
		Capacity: opt.Capacity, FPR: 1e-9, Partitions: partitions,
		Policy: policy.NewLive(&policy.Policy{
			Politeness: politeness.Policy{Delay: opt.Delay}, MaxPerHost: opt.MaxPerHost, SeedsUnlimited: opt.SeedsUnlimited,
		}).Load,
		Contents: new(frontiertest.MemoryContents), LeaseTTL: opt.LeaseTTL, Now: opt.Now, OpenOutput: func(frontier.Identity, frontier.Position) (frontier.Output, error) { return opt.Output, nil },
	}
	if opt.Policy != nil {
		cfg.Policy = opt.Policy.Load
	}
	if cfg.Capacity == 0 {
		cfg.Capacity = 100_000
	} else {
		cfg.FPR, cfg.Growth = 0.01, bloomstore.GrowthOff
	}
	return cfg
}

// withSet does the same as crawlsOn, for crawls with an exact set. The set is in memory, and has a window for one class.
func withSet(at redis.UniversalOptions, partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
	return func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		set := exacttest.NewMemory(exacttest.Options{Now: opt.Now, Windows: exact.Windows{frontiertest.ClassWindow: frontiertest.Window}})
		return openWithSet(t, suiteConfig(at, partitions, opt), opt, set)
	}
}

func openWithSet(t *testing.T, cfg Config, opt frontiertest.Options, set exact.Set) crawl {
	client := newClient(set)
	client.Now = opt.Now
	output := exact.NewOutput(exact.OutputConfig{Set: client.Set, Files: opt.Output})
	client.End, cfg.Exact = output.End, client
	cfg.OpenOutput = func(frontier.Identity, frontier.Position) (frontier.Output, error) { return output, nil }
	return openAgain(t, cfg)
}

// TestRoundsDoNotRepeat: see frontiertest.Rounds. Without an exact set there are no windows, but other rounds.
func TestRoundsDoNotRepeat(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	runs := 12
	if *proof {
		runs = 400
	}
	first, runs := suite.FirstSeed(uint64(*seed), runs)
	for i := range uint64(runs) {
		clock := suite.NewClock()
		opt := frontiertest.Options{Now: clock.Now, LeaseTTL: 30 * time.Second}
		cfg := suiteConfig(redis.UniversalOptions{Addrs: []string{server.Addr()}}, 1, opt)
		if i%4 == 0 {
			frontiertest.Rounds(t, openAgain(t, cfg), clock, func() {}, first+i)
			continue
		}
		set := exacttest.NewMemory(exacttest.Options{Now: clock.Now, Windows: exact.Windows{frontier.Listed: frontiertest.Window}})
		frontiertest.Rounds(t, openWithSet(t, cfg, opt, set), clock, func() { _, _, _ = set.Sweep(t.Context(), 100) }, first+i)
	}
}

// TestSuiteWithExactSet runs the suite on crawls with an exact set.
func TestSuiteWithExactSet(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	open := withSet(redis.UniversalOptions{Addrs: []string{server.Addr()}}, 4)
	t.Run("mixed", func(t *testing.T) { frontiertest.Run(t, open) })
	t.Run("windows", func(t *testing.T) { frontiertest.RunWindows(t, open) })
}

func TestModelWithExactSet(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	model(t, func(partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
		return withSet(redis.UniversalOptions{Addrs: []string{server.Addr()}}, partitions)
	})
}

// openAgain opens a crawl. The answers of other nodes count as durable at once,
// because the suite kills no node.
func openAgain(t testing.TB, cfg Config) crawl {
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r, err := s.recount(context.WithoutCancel(t.Context()))
		if err != nil && !errors.Is(err, frontier.ErrClosed) {
			t.Error(err)
		} else if wrong := contradictions(&r); err == nil && len(wrong) > 0 {
			t.Errorf("crawl %s: the recount finds contradictions %q", cfg.Name, wrong)
		}
		if stray, failed := strayPrints(context.WithoutCancel(t.Context()), s); cfg.Exact != nil && err == nil && len(stray) > 0 {
			t.Errorf("crawl %s: the sets of waiting exact items differ from the queues: %q, %v", cfg.Name, stray, failed)
		}
		_ = s.Close()
	})
	s.durable = 0
	return crawl{s, t}
}

// TestSuiteOnServer runs the suite on one server. The Redis user is allowed to run
// only the commands that Open checks, and only on the keys of crawls.
func TestSuiteOnServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": crawlUser(commands)}})
	for _, partitions := range suitePartitions() {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			frontiertest.Run(t, crawlsOn(asCrawlUser(server.Addr()), partitions))
		})
	}
}

// calm is the time-out of clusters whose nodes the test does not kill. A node
// that gets no processor time for a second, on a busy machine, has not failed.
const calm = time.Minute

// TestSuiteOnCluster runs the suite on a cluster of three primaries.
func TestSuiteOnCluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	for _, partitions := range suitePartitions() {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			frontiertest.Run(t, crawlsOn(redis.UniversalOptions{Addrs: cluster.Addrs()}, partitions))
		})
	}
}

// suitePartitions returns the numbers of partitions to run the suite with. Each case
// creates a crawl, and it takes long to create 256 partitions.
func suitePartitions() []int {
	if *proof {
		return []int{1, 4, 256}
	}
	return []int{4}
}

// TestModelOnServer makes random calls and compares their results with a model in memory.
func TestModelOnServer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	model(t, func(partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
		return crawlsOn(redis.UniversalOptions{Addrs: []string{server.Addr()}}, partitions)
	})
}

func TestModelOnCluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	model(t, func(partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
		return crawlsOn(redis.UniversalOptions{Addrs: cluster.Addrs()}, partitions)
	})
}

func model(t *testing.T, open func(partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl) {
	runs, steps := 3, 300
	if *proof {
		runs, steps = 30, 2000
	}
	first, runs := suite.FirstSeed(uint64(*seed), runs)
	for i := range uint64(runs) {
		partitions := []int{1, 8, 256}[(first+i)%3]
		frontiertest.Model(t, open(partitions), first+i, steps)
		if t.Failed() {
			break
		}
	}
}

func BenchmarkStore(b *testing.B) {
	server := servers.Redis(b, servers.RedisOptions{AppendOnly: true})
	frontiertest.Bench(b, func(b *testing.B, opt frontiertest.Options) frontiertest.Crawl {
		opt.Now = nil // use the server's clock
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

func TestSuiteOfPolicies(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	frontiertest.RunPolicies(t, func(t *testing.T, opt frontiertest.Options, present func() *policy.Policy) frontiertest.Crawl {
		cfg := config(server)
		cfg.Name, cfg.Now, cfg.Policy = fmt.Sprintf("policies-%d", lastCrawl.Add(1)), opt.Now, present
		return openAgain(t, cfg)
	})
}

// TestLiveMaxQueued: a limit of queued items that is set while the crawl runs holds for links within
// two seconds, and a limit that is removed holds no longer.
func TestLiveMaxQueued(t *testing.T) {
	t.Parallel()
	live := policy.NewLive(new(policy.Policy))
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy = live.Load
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 20))
	offer := func(n int) frontier.Reason {
		t.Helper()
		got, err := s.offer(t.Context(), testPages("b.test", n, n+1), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		return got.verdicts[0].Reason
	}
	if reason := offer(0); reason != "" {
		t.Errorf("without a limit, a link is refused: %s", reason)
	}
	live.Store(&policy.Policy{MaxQueued: 10})
	n := 1
	for deadline := time.Now().Add(30 * time.Second); offer(n) != frontier.ReasonQueueFull; n++ {
		if time.Now().After(deadline) {
			t.Fatal("with a limit of 10 and a queue of 21, links are still added")
		}
		time.Sleep(50 * time.Millisecond)
	}
	live.Store(new(policy.Policy))
	if reason := offer(n + 1); reason != "" {
		t.Errorf("after the limit, a link is refused: %s", reason)
	}
}
