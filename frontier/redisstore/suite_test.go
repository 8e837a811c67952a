package redisstore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// crawl is a Store as the suite wants it.
type crawl struct {
	*Store
	t testing.TB
}

func (crawl) LinksFirst()  {}
func (crawl) ForgetsDone() {}

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
	if cfg.Delay == 0 {
		cfg.Delay = NoDelay
	}
	s, err := Open(c.t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return crawl{s, c.t}, nil
}

// crawlsOn returns what opens crawls on a server or cluster for the suite.
func crawlsOn(at redis.UniversalOptions, partitions int) func(*testing.T, frontiertest.Options) frontiertest.Crawl {
	var last atomic.Int64
	return func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		cfg := Config{
			Redis: &at, Name: fmt.Sprintf("suite-%d", last.Add(1)),
			FilterKeys: opt.FilterKeys, FPR: 1e-9, NoGrowth: opt.FilterKeys > 0, Partitions: partitions,
			Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, MaxPerHost: opt.MaxPerHost, Now: opt.Now, Output: opt.Output,
		}
		if cfg.FilterKeys == 0 {
			cfg.FilterKeys = 100_000
		} else {
			cfg.FPR = 0.01
		}
		if cfg.Delay == 0 {
			cfg.Delay = NoDelay
		}
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return crawl{s, t}
	}
}

// TestSuite holds crawls on one server to the contract. Their user may run no
// command but those that a Store asks for at its start, on no keys but a crawl's.
func TestSuite(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": crawlUser(commands)}})
	frontiertest.Run(t, crawlsOn(asCrawlUser(server.Addr()), 4))
}
