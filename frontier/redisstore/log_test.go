package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestHalfTransactionsStayForgotten cuts a server's log within the writes of add.lua, and
// restarts the server twice. At the first start the server drops the whole transaction. At
// the second start it must not run half of it.
func TestHalfTransactionsStayForgotten(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	cfg := config(server)
	cfg.Partitions = 1
	s := openStore(t, cfg)
	add := func(from, to int) {
		t.Helper()
		_, err := s.Add(t.Context(), testPages("a.test", from, to))
		for errors.Is(err, frontier.ErrUnavailable) { // the store's connections are to the old server
			_, err = s.Add(t.Context(), testPages("a.test", from, to))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(0, 5)
	awaitLog(t, s)
	add(5, 6) // only one item, because two items with bits in one block would be two transactions
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	const exec = len("*1\r\n$4\r\nEXEC\r\n")
	if err := server.CutAOF(func(size int64) int64 { return size - int64(exec) - 10 }); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	add(10, 15)
	awaitLog(t, s)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	add(15, 16)
	queued := s.client.LLen(t.Context(), s.parts[0].queue(1, "a.test")).Val()
	if counted := counter(t, s, fieldQueued); queued != 11 || counted != queued {
		t.Errorf("%d items are queued, the counter says %d, want 11 and 11", queued, counted)
	}
}

// awaitLog waits until the server's log was rewritten in this epoch.
func awaitLog(t *testing.T, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		ep := s.nodes.single.epoch.Load()
		if s.client.HGet(t.Context(), s.parts[0].meta, fieldLog).Val() == ep.run &&
			s.client.InfoMap(t.Context(), "persistence").Item("Persistence", "aof_rewrite_in_progress") == "0" {
			return
		}
	}
	t.Fatal("the server's log was not rewritten within a minute")
}

// TestLogOfEachNode: after the nodes of a cluster have restarted, a new worker makes each of
// them rewrite its log.
func TestLogOfEachNode(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm, Node: servers.RedisOptions{AppendOnly: true}})
	cfg := clusterConfig(cluster)
	cfg.Partitions = 48
	first := openStore(t, cfg)
	lease := func(s *Store) {
		t.Helper()
		if _, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil { // begins an epoch on each node
			t.Fatal(err)
		}
	}
	lease(first)
	eventually(t, "the run id of each node", func() bool { return len(loggedRuns(t, first)) == len(cluster.Nodes) })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes {
		if err := errors.Join(node.Kill(), node.Restart()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.AwaitOK(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease(openStore(t, cfg))
	for n, node := range cluster.Nodes {
		eventually(t, fmt.Sprintf("a new log of node %d", n), func() bool {
			rewrites, err := node.Info("persistence", "aof_rewrites")
			if err != nil {
				t.Fatal(err)
			}
			return rewrites != "0"
		})
	}
}

// loggedRuns returns the run ids of the nodes whose logs are known to be whole.
func loggedRuns(t *testing.T, s *Store) (runs []string) {
	t.Helper()
	for _, p := range s.parts {
		if run := s.client.HGet(t.Context(), p.meta, fieldLog).Val(); run != "" {
			runs = append(runs, run)
		}
	}
	return runs
}
