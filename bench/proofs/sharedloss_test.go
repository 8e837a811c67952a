package proofs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// reached returns a channel that is closed after n more requests to a web.
func reached(web *site, n int) <-chan struct{} {
	there := make(chan struct{})
	web.ringAfter(n, func() { close(there) })
	return there
}

// await waits until a channel is closed. If ctx is done before that, it returns the
// cause of ctx.
func await(ctx context.Context, there <-chan struct{}) error {
	select {
	case <-there:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// powerCut waits for some time, kills a server, and cuts the end of its log. A power
// failure does the same if the log is synced every second. powerCut removes at least half
// of the bytes that the server wrote during the wait. It returns the number of removed
// bytes.
func powerCut(server *servers.RedisServer, rng *rand.Rand, wait time.Duration) (cut int64, err error) {
	before, err := server.AOFSize()
	if err != nil {
		return 0, err
	}
	time.Sleep(wait)
	if err := server.Kill(); err != nil {
		return 0, err
	}
	after, err := server.AOFSize()
	if err != nil {
		return 0, err
	}
	half := (after - before) / 2
	cut = half + rng.Int64N(half+1)
	return cut, server.CutAOF(func(size int64) int64 { return size - cut })
}

// judgeLoss is like m.judge, for a crawl whose servers lost data: URLs that a worker had got the
// answer added for. The crawl has found all of them again, and the audit must say so.
func (m *team) judgeLoss(web *site) {
	m.t.Helper()
	audit := m.judge(web)
	for _, fault := range audit.faults {
		m.t.Errorf("the audit says that %s does not balance:\n%s", fault, audit.text)
	}
	figure(m.t, "found-again", "%d lost URLs", audit.foundAgain)
	if audit.noted {
		m.t.Errorf("the audit has notes, so it did not count something:\n%s", audit.text)
	}
}

// TestSharedServerLoss kills the Redis server of a crawl and removes the end of its log.
// The crawl must continue by itself with the remaining data. Its records must be exactly
// the expected ones, and no host must be requested too early.
func TestSharedServerLoss(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := hardWeb(t, seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	m := newTeam(t, server.URL(), rng, sharedFlags(web, "--partitions", strconv.Itoa(sized(32, 256)))...)
	var cuts []int64
	m.trouble = func() error {
		for range sized(1, 5) {
			if err := await(t.Context(), reached(web, sized(200, 3000))); err != nil {
				return err
			}
			cut, err := powerCut(server, rng, time.Second)
			if err != nil {
				return err
			}
			cuts = append(cuts, cut)
			if err := server.Restart(); err != nil {
				return err
			}
		}
		return nil
	}
	timed(t, func() { m.run(3) })
	figure(t, "cut", "%d bytes of the log", cuts)
	m.judgeLoss(web)
}

// TestSharedClusterLoss kills nodes of a cluster, one after the other (at the small size
// only one). It removes the end of the node's log and restarts the node. The records must
// be exactly the expected ones. Some links of a page are on other nodes than the page. A
// worker completes the page only after these nodes have written the links to disk.
func TestSharedClusterLoss(t *testing.T) {
	seed := newClusterSeed(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	var cuts []int64
	crawlOnFailingCluster(t, seed, rng, 0, func(cluster *servers.Cluster, node *servers.RedisServer) error {
		cut, err := powerCut(node, rng, time.Second)
		if err != nil {
			return err
		}
		cuts = append(cuts, cut)
		return errors.Join(node.Restart(), cluster.AwaitOK(t.Context()))
	})
	figure(t, "cut", "%d bytes of the nodes' logs", cuts)
}

// TestSharedFailover kills primaries of a cluster, so that their replicas take over. Some
// links of a page are on other primaries than the page. A worker completes the page only
// after the replicas of these primaries have the links. The records must be exactly the
// expected ones.
func TestSharedFailover(t *testing.T) {
	seed := newClusterSeed(t)
	crawlOnFailingCluster(t, seed, rand.New(rand.NewPCG(seed, 8)), 1, func(cluster *servers.Cluster, primary *servers.RedisServer) error {
		return failOver(t.Context(), cluster, primary)
	})
}

// TestSharedSentinelFailover kills the primary of a crawl, so that Sentinels make its replica the primary. The replica lacks
// the last writes, so the crawl must find URLs again. Its records must be exactly the expected ones.
func TestSharedSentinelFailover(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	sentinels := servers.RedisSentinels(t, servers.RedisOptions{AppendOnly: true}, "")
	web := hardWeb(t, seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	m := newTeam(t, sentinels.URL(), rng, sharedFlags(web, "--partitions", strconv.Itoa(sized(32, 256)), "--redis-wait", "1")...)
	m.trouble = func() error {
		for range sized(1, 5) {
			if err := await(t.Context(), reached(web, sized(200, 3000))); err != nil {
				return err
			}
			old, err := sentinels.FailOver(t.Context())
			if err != nil {
				return err
			}
			if err := sentinels.Rejoin(t.Context(), old); err != nil {
				return err
			}
		}
		return nil
	}
	timed(t, func() { m.run(3) })
	m.judgeLoss(web)
}

// newClusterSeed is newSeed for a test that crawls on a cluster.
func newClusterSeed(t *testing.T) uint64 {
	t.Helper()
	if testing.Short() && !*proof {
		t.Skip("a cluster is slow: run this without -short, or with -proof")
	}
	t.Parallel()
	return newSeed(t)
}

// crawlOnFailingCluster runs a crawl of three workers on a cluster and judges the crawl. The
// argument replicas is the number of replicas of each primary. Workers wait for as many
// replicas (--redis-wait) before they complete a page that has links on other primaries.
// During the crawl, the function fail is called for one primary after the other, but at the
// small size only for the first one.
func crawlOnFailingCluster(t *testing.T, seed uint64, rng *rand.Rand, replicas int, fail func(*servers.Cluster, *servers.RedisServer) error) {
	t.Helper()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Replicas: replicas, Node: servers.RedisOptions{AppendOnly: true}})
	web := hardWeb(t, seed)
	m := newTeam(t, cluster.URL(), rng, sharedFlags(web, "--partitions", strconv.Itoa(sized(32, 256)), "--redis-wait", strconv.Itoa(replicas))...)
	m.trouble = func() error {
		for _, primary := range cluster.Nodes[:sized(1, 3)] {
			if err := await(t.Context(), reached(web, sized(200, 4000))); err != nil {
				return err
			}
			if err := fail(cluster, primary); err != nil {
				return err
			}
		}
		return nil
	}
	timed(t, func() { m.run(3) })
	m.judgeLoss(web)
}

// failOver kills a primary, waits until its replica has taken over, and restarts the old
// primary, which is then a replica.
func failOver(ctx context.Context, cluster *servers.Cluster, primary *servers.RedisServer) error {
	replica, err := cluster.ReplicaOf(ctx, primary)
	if err != nil {
		return err
	}
	if err := primary.Kill(); err != nil {
		return err
	}
	if err := cluster.AwaitPrimary(ctx, replica); err != nil {
		return fmt.Errorf("after the death of %s: %w", primary.Addr(), err)
	}
	return errors.Join(primary.Restart(), cluster.AwaitOK(ctx))
}
