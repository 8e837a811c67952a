package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestSentinel: a store finds the primary through Sentinels, also after a failover, and keeps what the replica had.
// Addresses that do not fit are refused with what to give instead.
func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinels := servers.RedisSentinels(t, servers.RedisOptions{}, "geheim")
	parsed := func(url string) (opt *redis.UniversalOptions) {
		opt, err := ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		return opt
	}
	cfg := config(sentinels.Servers[0])
	cfg.Redis, cfg.Wait = parsed(sentinels.URL()), 1
	store := openStore(t, cfg)
	mustAdd(t, store, testPages("a.test", 0, 5))
	if _, err := sentinels.FailOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stats frontier.Stats
	err := error(frontier.ErrUnavailable)
	for errors.Is(err, frontier.ErrUnavailable) { // while a connection leads to the old primary
		stats, err = store.Stats(t.Context())
	}
	if err != nil || stats.Queued != 5 {
		t.Errorf("after the failover: %+v, %v, want 5 queued", stats, err)
	}
	password := "?sentinel_password=geheim"
	for _, c := range []struct{ url, want string }{
		{strings.TrimSuffix(sentinels.URL(), password), "NOAUTH"},
		{"redis://geheim@" + sentinels.Sentinels[0].Addr(), "it is a Sentinel: want its URL in the form redis+sentinel://HOST:PORT[,HOST:PORT...]/MASTER"},
		{strings.Replace(sentinels.URL(), servers.SentinelMaster, "others", 1), `no Sentinel knows a primary with the name "others"`},
		{"redis+sentinel://" + sentinels.Servers[1].Addr() + "/crawls", "it is no Sentinel: want a URL that begins with redis://"},
	} {
		cfg.Redis = parsed(c.url)
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open of %s: %v, want an error with %q", c.url, err, c.want)
		}
	}
}
