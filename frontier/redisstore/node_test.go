package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// confirmCall returns a call that changes nothing.
func confirmCall(s *Store, required *epoch) *call {
	p := s.parts[0]
	return &call{part: p, script: confirmScript, keys: []string{p.meta}, args: []any{""}, required: required}
}

func (s *Store) mustRun(t *testing.T, c *call) *epoch {
	t.Helper()
	s.runAll(t.Context(), []*call{c})
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.ran
}

func TestEpochEndsWithTheServer(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	s := openStore(t, config(server))
	old := s.mustRun(t, confirmCall(s, nil))
	page := testPages("a.test", 0, 1)
	mustAdd(t, s, page)
	print := s.hasher.Fingerprint(page[0].URL)
	if !print.Sampled() && !s.seen.has(print) {
		t.Error("the seen cache has no page that was added")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	// The pool's connections are to the old server, so calls may fail before the client
	// notices.
	c := confirmCall(s, old)
	s.runAll(t.Context(), []*call{c})
	if c.err == nil || !errors.Is(c.err, frontier.ErrUnavailable) {
		t.Errorf("the first call for the old epoch: %v, want %v", c.err, frontier.ErrUnavailable)
	}
	eventually(t, "an answer to a call for the old epoch", func() bool {
		c = confirmCall(s, old)
		if s.runAll(t.Context(), []*call{c}); !errors.Is(c.err, frontier.ErrUnavailable) {
			t.Fatalf("a later call for the old epoch: %v, want %v", c.err, errEpoch)
		}
		return errors.Is(c.err, errEpoch)
	})
	if now := s.mustRun(t, confirmCall(s, nil)); now == old || now.run == old.run {
		t.Errorf("after a restart the epoch is %q, as before, want a new one", now.run)
	}
	if s.seen.has(print) {
		t.Error("the seen cache outlived the epoch")
	}
	if got := mustAdd(t, s, page)[0].Answer; got != frontier.Seen {
		t.Errorf("a page that was added before the restart: %v, want seen", got)
	}
}

func TestForgottenScriptsAreLoadedAgain(t *testing.T) {
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	before := s.mustRun(t, confirmCall(s, nil))
	if err := s.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	calls := []*call{confirmCall(s, before), confirmCall(s, nil)}
	s.runAll(t.Context(), calls)
	for _, c := range calls {
		if c.err != nil || c.ran != before {
			t.Errorf("after SCRIPT FLUSH: error %v, ran in epoch %v, want it to run in epoch %v", c.err, c.ran, before)
		}
	}
}

// TestScriptsEndWithTheServer: Redis keeps no scripts in its log or snapshot.
// Epochs rely on that.
func TestScriptsEndWithTheServer(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true, Config: map[string]string{"save": "1 1"}})
	s := openStore(t, config(server))
	ep := s.mustRun(t, confirmCall(s, nil))
	client := server.Client()
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for sc, hash := range ep.sha {
		if there := client.ScriptExists(t.Context(), hash).Val(); len(there) != 1 || there[0] {
			t.Errorf("after a restart the server has the script %s: %v, want false", sc.name, there)
		}
	}
}

func TestClassifyErrors(t *testing.T) {
	s := newStore(Config{})
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want error
		not  error
	}{
		{err: io.EOF, want: frontier.ErrUnavailable},
		{err: &net.OpError{Op: "dial", Err: errors.New("refused")}, want: frontier.ErrUnavailable},
		{err: context.DeadlineExceeded, want: frontier.ErrUnavailable},
		{err: redis.ErrPoolTimeout, want: frontier.ErrUnavailable},
		{err: redis.ErrClosed, want: frontier.ErrUnavailable, not: frontier.ErrClosed}, // the client of a node that has left the cluster
		{err: ended.Err(), ctx: ended, want: context.Cause(ended)},
		{err: fmt.Errorf("read: %w", frontier.ErrFilterLost), want: frontier.ErrFilterLost, not: frontier.ErrUnavailable},
		{err: errEpoch, want: errEpoch},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		if got := s.classify(c.ctx, c.err); !errors.Is(got, c.want) || c.not != nil && errors.Is(got, c.not) {
			t.Errorf("classify(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if err := s.classify(t.Context(), nil); err != nil {
		t.Errorf("classify(nil) = %v, want nil", err)
	}
	s.background.stop()
	if err := s.classify(t.Context(), redis.ErrClosed); !errors.Is(err, frontier.ErrClosed) {
		t.Errorf("after Close, classify(%v) = %v, want %v", redis.ErrClosed, err, frontier.ErrClosed)
	}
}

// TestClassifyReplies classifies errors that a server returned. So they have the types that the
// client gives to replies.
func TestClassifyReplies(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	for _, c := range []struct {
		reply string
		want  error
	}{
		{"LOADING Redis is loading the dataset in memory", frontier.ErrUnavailable},
		{"MOVED 3999 127.0.0.1:6381", frontier.ErrUnavailable},
		{"ASK 3999 127.0.0.1:6381", frontier.ErrUnavailable},
		{"TRYAGAIN Multiple keys request during rehashing of slot", frontier.ErrUnavailable},
		{"CLUSTERDOWN The cluster is down", frontier.ErrUnavailable},
		{"READONLY You can't write against a read only replica.", frontier.ErrUnavailable},
		{"MISCONF Errors writing to the AOF file", frontier.ErrUnavailable},
		{"NOREPLICAS Not enough good replicas to write.", frontier.ErrUnavailable},
		{"OOM command not allowed when used memory > 'maxmemory'.", frontier.ErrFull},
		{"OOM command not allowed when used memory > 'maxmemory'.", frontier.ErrUnavailable},
		{"WRONGTYPE Operation against a key", nil},
		{"NOPERM this user has no permissions", nil},
	} {
		err := s.client.Eval(t.Context(), "return redis.error_reply(ARGV[1])", nil, c.reply).Err()
		got := s.classify(t.Context(), err)
		if c.want != nil && !errors.Is(got, c.want) || c.want == nil && errors.Is(got, frontier.ErrUnavailable) {
			t.Errorf("classify(%q) = %v, want %v", c.reply, got, c.want)
		}
	}
}

// TestPartitionsMove opens a store with one address of a cluster, and moves a
// partition's slot during its use.
func TestPartitionsMove(t *testing.T) {
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Primaries: 3, NodeTimeout: calm})
	cfg := Config{
		Redis: &redis.UniversalOptions{Addrs: cluster.Addrs()[:1]}, Name: "test", SeenCache: DefaultSeenCache, Partitions: 8, Capacity: 10_000,
	}
	s := openStore(t, cfg)
	var pages []frontier.Offer
	for h := range 50 {
		pages = append(pages, testPages(fmt.Sprintf("h%d.test", h), 0, 10)...)
	}
	if got := answersOf(mustAdd(t, s, pages)); got[frontier.Added] != len(pages) {
		t.Fatalf("%d new pages are answered %v, want all added", len(pages), got)
	}
	p := s.partition(pages[0].Host)
	before := p.node.Load()
	migrate(t, cluster, p)
	// Until the client has found the slot, calls return ErrUnavailable.
	fresh := testPages(pages[0].Host, 10, 20)
	for {
		verdicts, err := s.Add(t.Context(), fresh)
		if err == nil {
			if got := answersOf(verdicts); got[frontier.Added] != len(fresh) {
				t.Errorf("after the move: %v, want all %d added", got, len(fresh))
			}
			break
		}
		if !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if p.node.Load() == before {
		t.Error("the partition has the same node after its slot was moved")
	}
	if got := answersOf(mustAdd(t, s, append(pages, fresh...))); got[frontier.Seen] != len(pages)+len(fresh) {
		t.Errorf("offered again: %v, want all seen", got)
	}
}

// migrate moves the slot of a partition to another node.
func migrate(t *testing.T, cluster *servers.Cluster, p *partition) {
	t.Helper()
	slot, err := cluster.SlotOf(t.Context(), p.meta)
	if err != nil {
		t.Fatal(err)
	}
	from, err := cluster.PrimaryOf(t.Context(), p.meta)
	if err != nil {
		t.Fatal(err)
	}
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	if err := cluster.MigrateSlot(t.Context(), slot, from, to); err != nil {
		t.Fatal(err)
	}
}

// TestCountsOfMovedPartition: Add counts refused offers in the first partition, even after the
// slot of the partition was moved. Until Add finds the slot, it can return ErrUnavailable.
func TestCountsOfMovedPartition(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: calm})
	s := openStore(t, clusterConfig(cluster))
	migrate(t, cluster, s.parts[0])
	eventually(t, "an answer of Add", func() bool {
		_, err := s.Add(t.Context(), []frontier.Offer{{Host: "a.test"}})
		if err != nil && !errors.Is(err, frontier.ErrUnavailable) {
			t.Fatalf("Add after a slot was moved = %v, want nil or ErrUnavailable", err)
		}
		return err == nil
	})
}

// TestRefusedConnectionIsNoAnswer changes the password of a worker's user. The calls of the
// worker fail, and no call treats the missing answer as a refusal or as a confirmation.
func TestRefusedConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{Config: map[string]string{"user": crawlUser(commands)}})
	cfg, user := config(server), asCrawlUser(server.Addr())
	cfg.Redis, cfg.OpenOutput = &user, countOutput
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 3))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
	}
	l, p := grant.Leases[0], s.partition("a.test")
	ep := s.mustRun(t, confirmCall(s, nil))
	admin := server.Client()
	if err := errors.Join(
		admin.Do(t.Context(), "acl", "setuser", user.Username, "resetpass", ">another").Err(),
		admin.Do(t.Context(), "client", "kill", "user", user.Username).Err(),
	); err != nil {
		t.Fatal(err)
	}
	done := finish(l.Items[0])
	done.Record = func(frontier.LinkCounts) error { return nil }
	done.Void = func() error {
		t.Error("the record of a lease that is still held was voided")
		return nil
	}
	for what, call := range map[string]func() error{
		"Complete": func() error {
			return s.Complete(t.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
		},
		"Extend":  func() error { _, err := s.Extend(t.Context(), l.ID, frontier.TopUp{}); return err },
		"confirm": func() error { return s.confirm(t.Context(), ep, p) },
		"confirm by replicas": func() error {
			s.cfg.Wait = 1
			defer func() { s.cfg.Wait = 0 }()
			return s.confirm(t.Context(), ep, p)
		},
	} {
		err := call()
		for range 30 { // the first calls fail because the server has closed their connections
			if !errors.Is(err, frontier.ErrUnavailable) {
				break
			}
			err = call()
		}
		if !redis.HasErrorPrefix(err, "WRONGPASS") {
			t.Errorf("%s with a wrong password = %v, want the server's error", what, err)
		}
	}
}
