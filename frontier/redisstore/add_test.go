package redisstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier"
)

// config is that of a small crawl on a server of the test's own.
func config(server *servers.RedisServer) Config {
	return Config{
		Redis: &redis.UniversalOptions{Addrs: []string{server.Socket()}},
		Name:  "test", Partitions: 4, FilterKeys: 10_000, Delay: NoDelay,
	}
}

func openStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testPages(host string, from, to int) (items []frontier.Item) {
	for n := from; n < to; n++ {
		items = append(items, frontier.Item{
			URL: fmt.Sprintf("https://%s/path/of/page/%d?query=%d", host, n, n), Host: host,
			Depth: 1, Priority: frontier.PriorityPage, Referrer: frontier.Referrer{1, 2, 3},
		})
	}
	return items
}

// answersOf counts verdicts by what they say.
func answersOf(verdicts []frontier.Verdict) map[frontier.Answer]int {
	counts := make(map[frontier.Answer]int)
	for _, v := range verdicts {
		counts[v.Answer]++
	}
	return counts
}

func mustAdd(t testing.TB, s *Store, items []frontier.Item) []frontier.Verdict {
	t.Helper()
	verdicts, err := s.Add(context.WithoutCancel(t.Context()), items)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func TestAddSmoke(t *testing.T) {
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	var items []frontier.Item
	for h := range 20 {
		items = append(items, testPages(fmt.Sprintf("h%d.test", h), 0, 300)...)
	}
	if got := answersOf(mustAdd(t, s, items)); got[frontier.Added] != len(items) {
		t.Fatalf("%d of %d new items were answered added", got[frontier.Added], len(items))
	}
	if got := answersOf(mustAdd(t, s, items)); got[frontier.Seen] != len(items) {
		t.Fatalf("%d of %d known items were answered seen", got[frontier.Seen], len(items))
	}
	for _, p := range s.parts {
		t.Log(s.client.HGetAll(t.Context(), p.meta).Val())
	}
}
