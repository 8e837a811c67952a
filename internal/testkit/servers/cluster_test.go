package servers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func dialCluster(t *testing.T, cluster *servers.Cluster) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestSlotMigratesUnderLoad checks that no key is lost when a slot moves to another
// primary while a client writes to the slot.
func TestSlotMigratesUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{})
	client := dialCluster(t, cluster)
	key := func(i int) string { return fmt.Sprintf("{tag}%d", i) }
	for i := range 100 {
		must(t, client.Set(ctx, key(i), i, 0).Err())
	}
	slot, err := cluster.SlotOf(ctx, key(0))
	must(t, err)
	from, err := cluster.PrimaryOf(ctx, key(0))
	must(t, err)
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}

	// Half of the keys are moved before the load begins, so that both primaries get commands.
	must(t, cluster.OpenSlot(ctx, slot, from, to))
	moved, err := cluster.MoveKeys(ctx, slot, 50, from, to)
	must(t, err)
	if here, there := count(t, from), count(t, to); moved != 50 || here != 50 || there != 50 {
		t.Fatalf("moved %d keys; now the old primary has %d keys and the new one %d; want 50 each", moved, here, there)
	}
	written := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for i := 100; i < 300; i++ {
			if i == 110 {
				close(begun)
			}
			if err := client.Set(ctx, key(i), i, 0).Err(); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	<-begun
	must(t, cluster.MigrateSlot(ctx, slot, from, to))
	must(t, <-written)
	if owner, err := cluster.PrimaryOf(ctx, key(0)); err != nil || owner != to {
		t.Errorf("after the migration, the slot does not belong to the new primary (%v)", err)
	}
	if here, there := count(t, from), count(t, to); here != 0 || there != 300 {
		t.Errorf("the old primary has %d keys and the new one %d, want 0 and 300", here, there)
	}
}

// TestFailoverOfPrimary checks that AwaitReplica waits for all writes of the primary, and
// that a replica takes over: once on request, and once after its primary is killed. The
// killed node must come back as a replica of the new primary.
func TestFailoverOfPrimary(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Replicas: 1})
	if nodes := strings.Count(cluster.URL(), ","); nodes != 5 {
		t.Errorf("URL %q, want six hosts", cluster.URL())
	}
	client := dialCluster(t, cluster)
	must(t, client.Set(ctx, "key", "value", 0).Err())
	first, err := cluster.PrimaryOf(ctx, "key")
	must(t, err)
	second, err := cluster.ReplicaOf(ctx, first)
	must(t, err)
	must(t, second.Pause())
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 100_000 {
			p.Set(ctx, fmt.Sprintf("{key}%d", i), "value", 0)
		}
		return nil
	})
	must(t, err)
	must(t, second.Resume())
	must(t, cluster.AwaitReplica(ctx, first, second))
	if n := count(t, second); n != 100_001 {
		t.Errorf("after AwaitReplica the replica has %d keys, want 100,001", n)
	}
	must(t, cluster.Failover(ctx, second))
	must(t, cluster.AwaitOK(ctx))
	if owner, err := cluster.PrimaryOf(ctx, "key"); err != nil || owner != second {
		t.Errorf("after Failover, the key does not belong to the former replica (%v)", err)
	}

	must(t, second.Kill())
	timeout, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	must(t, cluster.AwaitPrimary(timeout, first))
	if value, err := client.Get(ctx, "key").Result(); value != "value" {
		t.Errorf("after the primary was killed, the value of the key is %q (%v), want \"value\"", value, err)
	}
	must(t, second.Restart())
	must(t, cluster.AwaitOK(timeout))
	if replica, err := cluster.ReplicaOf(ctx, first); err != nil || replica != second {
		t.Errorf("after its restart, the killed node is not a replica of the new primary (%v)", err)
	}

	// The replica can take over although its primary is down and cannot agree.
	must(t, first.Kill())
	must(t, cluster.Failover(timeout, second))
	if owner, err := cluster.PrimaryOf(ctx, "key"); err != nil || owner != second {
		t.Errorf("after a forced Failover, the key does not belong to the former replica (%v)", err)
	}
}
