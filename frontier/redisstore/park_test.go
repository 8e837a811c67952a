package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestParkedHostsAreLetGo: under a new policy one call of Lease lets go all hosts that it does not pause, however many
// they are, and no other. Hosts that a worker parks later under an earlier policy are let go some seconds later.
func TestParkedHostsAreLetGo(t *testing.T) {
	t.Parallel()
	live := policy.NewLive(new(policy.Policy))
	pause := func(texts ...string) {
		next := &policy.Policy{Version: live.Load().Version + 1}
		for _, text := range texts {
			target, err := policy.ParseTarget(text)
			if err != nil {
				t.Fatal(err)
			}
			next.Pause = append(next.Pause, target)
		}
		live.Store(next)
	}
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy, cfg.Partitions = live.Load, 1
	s := openStore(t, cfg)
	due := s.parts[0].due
	parkedHosts := func() int64 {
		return s.client.ZCount(t.Context(), due, strconv.Itoa(parked), "+inf").Val()
	}
	lease := func() {
		t.Helper()
		if _, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil {
			t.Fatal(err)
		}
	}
	pause("host=*.test")
	const hosts = 2*unparkBatch + 50
	for n := range hosts {
		mustAdd(t, s, testPages(fmt.Sprintf("h%d.test", n), 0, 1))
	}
	for deadline := time.Now().Add(time.Minute); parkedHosts() < hosts; {
		s.schedule.forget()
		if lease(); time.Now().After(deadline) {
			t.Fatalf("%d of %d paused hosts are parked", parkedHosts(), hosts)
		}
	}

	pause("host=h7.test")
	lease()
	if n, score := parkedHosts(), s.client.ZScore(t.Context(), due, "h7.test").Val(); n != 1 || score < parked {
		t.Errorf("%d hosts are parked, and h7.test has the score %v, want it alone to be parked", n, score)
	}

	s.client.ZAdd(t.Context(), due, redis.Z{Score: parked + 1, Member: "h8.test"})
	for begun := time.Now(); parkedHosts() > 1; time.Sleep(100 * time.Millisecond) {
		if lease(); time.Since(begun) > 3*unparkAgain {
			t.Fatalf("a host that another worker has parked is still parked after %v", time.Since(begun))
		}
	}
}
