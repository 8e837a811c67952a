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

// clusterBench is a crawl on a cluster. It has a lease of some pages. The host in the
// field away is on another node. The pages can have links to it.
type clusterBench struct {
	*testing.T
	*Store
	cluster *servers.Cluster
	page    frontier.Lease
	away    string
}

func newClusterBench(t *testing.T, replicas, wait int) *clusterBench {
	b := &clusterBench{T: t, cluster: servers.RedisCluster(t, servers.ClusterOptions{
		Primaries: 3, Replicas: replicas, NodeTimeout: calm,
		Node: servers.RedisOptions{AppendOnly: true, Config: map[string]string{"appendfsync": "always"}},
	})}
	b.Store = openStore(t, Config{
		Redis: &redis.UniversalOptions{Addrs: b.cluster.Addrs()}, Name: "test", SeenCache: DefaultSeenCache, Partitions: 12, Capacity: 10_000,
		Wait: wait, OpenOutput: countOutput,
	})
	mustAdd(t, b.Store, testPages("home.test", 0, 3))
	grant, err := b.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %+v, %v, want one", grant, err)
	}
	b.page = grant.Leases[0]
	home := b.node("home.test")
	for n := 0; b.away == ""; n++ {
		if host := fmt.Sprintf("h%d.test", n); b.node(host) != home {
			b.away = host
		}
	}
	return b
}

func (b *clusterBench) node(host string) *node {
	b.Helper()
	n, err := b.nodeOf(b.Context(), b.partition(host))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// complete completes the n-th item of the lease with links to a host.
func (b *clusterBench) complete(ctx context.Context, n int, host string) error {
	done := finish(b.page.Items[n])
	done.Links = testPages(host, 10*n, 10*n+5)
	return b.Complete(ctx, b.page.ID, []frontier.Completion{done}, frontier.HostUpdate{})
}

// TestConfirmByTime: a page completes only when its links on another node are on that
// node's disk.
func TestConfirmByTime(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, 0, 0)
	b.durable = time.Minute
	if err := b.complete(t.Context(), 0, "home.test"); err != nil {
		t.Fatalf("Complete with links to its own node: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.complete(ctx, 1, b.away); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Complete with links to another node, before they are on its disk = %v, want DeadlineExceeded", err)
	}
	b.durable = 50 * time.Millisecond
	before := time.Now()
	if err := b.complete(t.Context(), 2, b.away); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(before); took < b.durable {
		t.Errorf("Complete took %v, want at least %v", took, b.durable)
	}
	if got := b.counter(t, fieldDone); got != 2 {
		t.Errorf("%d items are done, want 2", got)
	}
}

// TestConfirmNoticesRestart: the other node loses the links while the page
// waits. The links are offered again.
func TestConfirmNoticesRestart(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, 0, 0)
	p := b.partition(b.away)
	other, err := b.cluster.PrimaryOf(t.Context(), p.meta)
	if err != nil {
		t.Fatal(err)
	}
	saved := &scriptBench{T: t, Store: b.Store, admin: other.Client()}
	before := saved.dump()
	b.durable = time.Hour // it waits until the test cancels the call
	ctx, cancel := context.WithCancel(t.Context())
	added := make(chan error, 1)
	go func() { // the test removes the links once they are there
		defer cancel()
		for {
			switch n, err := b.client.HGet(t.Context(), p.meta, fieldQueued).Int64(); {
			case err != nil && !errors.Is(err, redis.Nil):
				added <- err
				return
			case n == 5:
				saved.restore(before)
				added <- errors.Join(other.Kill(), other.Restart(), b.cluster.AwaitOK(t.Context()))
				return
			}
		}
	}()
	err = b.complete(ctx, 0, b.away)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Complete whose links are not on the other node's disk = %v, want Canceled", err)
	}
	b.durable = 0
	eventually(t, "the completion", func() bool {
		err := b.complete(t.Context(), 0, b.away)
		if err != nil && !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	for field, want := range map[string]int64{fieldDone: 1, fieldQueued: 5} {
		if got := b.counter(t, field); got != want {
			t.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
}

// TestConfirmByReplicas: a page completes only when a replica has its links.
func TestConfirmByReplicas(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, 1, 1)
	b.durable = time.Hour // so long that the test would fail if it waited for this
	if err := b.complete(t.Context(), 0, b.away); err != nil {
		t.Fatal(err)
	}
	b.cfg.Wait = 2
	if err := b.complete(t.Context(), 1, b.away); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("Complete with one of two replicas = %v, want %v", err, frontier.ErrUnavailable)
	}
	b.cfg.Wait = 1
	if err := b.complete(t.Context(), 1, b.away); err != nil {
		t.Fatal(err)
	}
	if got := b.counter(t, fieldDone); got != 2 {
		t.Errorf("%d items are done, want 2", got)
	}
}

// TestConfirmNoticesFailover: a completion fails because too few replicas have its
// links. Then a replica takes over the other node. The repeated completion
// succeeds, and its effects happen once.
func TestConfirmNoticesFailover(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, 1, 1)
	b.cfg.Wait = 2
	if err := b.complete(t.Context(), 0, b.away); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("Complete with one of two replicas = %v, want %v", err, frontier.ErrUnavailable)
	}
	b.cfg.Wait = 1
	primary, err := b.cluster.PrimaryOf(t.Context(), b.partition(b.away).meta)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := b.cluster.ReplicaOf(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.cluster.Failover(t.Context(), replica), b.cluster.AwaitOK(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the completion", func() bool {
		err := b.complete(t.Context(), 0, b.away)
		if err != nil && !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	for field, want := range map[string]int64{fieldDone: 1, fieldQueued: 5} {
		if got := b.counter(t, field); got != want {
			t.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
}
