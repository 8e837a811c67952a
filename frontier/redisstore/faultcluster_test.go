package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func clusterConfig(cluster *servers.Cluster) Config {
	return Config{
		Redis: &redis.UniversalOptions{Addrs: cluster.Addrs()},
		Name:  "test", SeenCache: DefaultSeenCache, Partitions: 12, Capacity: 10_000,
	}
}

// TestSlotsMoveUnderLoad moves the slots of partitions between nodes during a crawl, so
// slowly that calls meet slots that are only partly moved.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	moves, pages := 4, 1500
	if *proof {
		moves, pages = 40, 15_000
	}
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	cfg := clusterConfig(cluster)
	e := newExpedition(t, cfg, 3, pages)
	for _, s := range e.stores {
		s.durable = 0 // the test kills no node
	}
	e.run(2*time.Minute, func(ctx context.Context) {
		for i := range moves {
			slot, err := cluster.SlotOf(ctx, e.stores[0].parts[i%cfg.Partitions].meta)
			if err != nil {
				t.Fatal(err)
			}
			from, err := cluster.PrimaryOf(ctx, e.stores[0].parts[i%cfg.Partitions].meta)
			if err != nil {
				t.Fatal(err)
			}
			to := cluster.Nodes[0]
			if to == from {
				to = cluster.Nodes[1]
			}
			e.moveSlot(ctx, cluster, slot, from, to)
		}
	})
	e.wantEverything()
}

// moveSlot moves a slot key by key.
func (e *expedition) moveSlot(ctx context.Context, cluster *servers.Cluster, slot int, from, to *servers.RedisServer) {
	if err := cluster.OpenSlot(ctx, slot, from, to); err != nil {
		e.Fatal(err)
	}
	for moved := 1; moved > 0; {
		var err error
		if moved, err = cluster.MoveKeys(ctx, slot, 1, from, to); err != nil {
			e.Fatal(err)
		}
		_ = sleep(ctx, 2*time.Millisecond)
	}
	if err := cluster.CloseSlot(ctx, slot, from, to); err != nil {
		e.Fatal(err)
	}
}

// TestNodeLosesItsLastMoments kills a node of a cluster and cuts its log during a crawl.
// Nothing is lost, because a page of another node is completed only when its links to hosts of
// the killed node are on that node's disk.
func TestNodeLosesItsLastMoments(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	rounds, pages, window := 1, 2000, 500*time.Millisecond
	if *proof {
		rounds, pages, window = 10, 8000, 2*time.Second
	}
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Node: servers.RedisOptions{AppendOnly: true}})
	cfg := clusterConfig(cluster)
	cfg.LeaseTTL = 2*window + time.Second
	e := newExpedition(t, cfg, 3, pages)
	e.batch = maxBatch // completions wait until their links are on the disks of other nodes
	for _, s := range e.stores {
		s.durable = window
	}
	e.run(time.Duration(90+30*rounds)*time.Second, func(ctx context.Context) {
		for range rounds {
			node := cluster.Nodes[rng.IntN(len(cluster.Nodes))]
			w := &logWatch{server: node}
			for until := time.Now().Add(e.ttl); time.Now().Before(until); {
				w.look(t)
				_ = sleep(ctx, 20*time.Millisecond)
			}
			if err := node.Kill(); err != nil {
				t.Fatal(err)
			}
			before := w.since(time.Now().Add(-window + 50*time.Millisecond))
			if err := node.CutAOF(func(size int64) int64 { return before + rng.Int64N(size-before+1) }); err != nil {
				t.Fatal(err)
			}
			if err := node.Restart(); err != nil {
				t.Fatal(err)
			}
			mend(ctx, t, node)
			if err := cluster.AwaitOK(ctx); err != nil {
				t.Fatal(err)
			}
			e.seed(ctx)
		}
	})
	e.wantEverything()
}

// TestFailoverWithWait kills primaries during a crawl in which a page is completed only
// after a replica has its links. Every page is found, even if a replica lacks writes when
// it takes over.
func TestFailoverWithWait(t *testing.T) {
	t.Parallel()
	rounds, pages := 1, 800
	if *proof {
		rounds, pages = 3, 8000
	}
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Replicas: 1})
	cfg := clusterConfig(cluster)
	cfg.Wait = 1
	e := newExpedition(t, cfg, 3, pages)
	e.run(time.Duration(90+30*rounds)*time.Second, func(ctx context.Context) {
		for n := range rounds {
			_ = sleep(ctx, time.Second)
			primary, err := cluster.PrimaryOf(ctx, e.stores[0].parts[n].meta)
			if err != nil {
				t.Fatal(err)
			}
			replica, err := cluster.ReplicaOf(ctx, primary)
			if err != nil {
				t.Fatal(err)
			}
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cluster.AwaitPrimary(ctx, replica); err != nil {
				t.Fatal(err)
			}
			if err := primary.Restart(); err != nil { // it is a replica now
				t.Fatal(err)
			}
			if err := cluster.AwaitOK(ctx); err != nil {
				t.Fatal(err)
			}
			e.seed(ctx)
		}
	})
	e.wantEverything()
}

// TestFailoverNamesWhatIsLost adds items to a primary while its replica is down, and then
// kills the primary. Lost counts each missing item.
func TestFailoverNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Replicas: 1, NodeTimeout: 3 * time.Second, Node: servers.RedisOptions{AppendOnly: true}})
	s := openStore(t, clusterConfig(cluster))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var offered []frontier.Offer
	offer := func(from, to int) {
		for h := range 60 {
			items := testPages(fmt.Sprintf("h%d.test", h), from, to)
			mustAdd(t, s, items)
			offered = append(offered, items...)
		}
	}
	offer(0, 20)
	primary, err := cluster.PrimaryOf(ctx, s.parts[0].meta)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := cluster.ReplicaOf(ctx, primary)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitReplica(ctx, primary, replica); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replica.FlushAOF(ctx), replica.Kill()); err != nil {
		t.Fatal(err)
	}
	offer(20, 50)
	if losses, err := s.Lost(ctx); err != nil || len(losses) > 0 {
		t.Errorf("before the failover Lost = %v (%v), want none", losses, err)
	}
	if err := errors.Join(primary.Kill(), replica.Restart()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitPrimary(ctx, replica); err != nil {
		t.Fatal(err)
	}
	var losses []Loss
	eventually(t, "an answer of the new primary", func() bool {
		var err error
		losses, err = s.Lost(ctx)
		return err == nil
	})
	missing := make(map[int]uint64)
	total := uint64(0)
	queued := queuedURLs(t, s)
	for _, item := range offered {
		if !queued[item.URL] {
			missing[s.partition(item.Host).number]++
			total++
		}
	}
	if total == 0 {
		t.Error("no item was lost, so the test has shown nothing")
	}
	for _, loss := range losses {
		if loss.Worker != s.number || loss.Items != missing[loss.Partition] {
			t.Errorf("Lost returned %+v, want worker %d and %d items", loss, s.number, missing[loss.Partition])
		}
		delete(missing, loss.Partition)
	}
	for p, n := range missing {
		t.Errorf("%d items of partition %d are missing, but Lost does not name them", n, p)
	}
	t.Logf("%d of %d items are lost, and named", total, len(offered))
}

// queuedURLs returns the URLs that List says are queued.
func queuedURLs(t *testing.T, s *Store) (queued map[string]bool) {
	t.Helper()
	eventually(t, "a list of what is queued", func() bool {
		queued = make(map[string]bool)
		err := s.List(t.Context(), frontier.Queued, "", func(item frontier.Item) bool {
			queued[item.URL] = true
			return true
		})
		if err != nil && !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return queued
}
