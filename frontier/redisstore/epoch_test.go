package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// epochBench is a crawl on a server that the test can kill. The test also sets the clock of the
// crawl.
type epochBench struct {
	*scriptBench
	server *servers.RedisServer
}

func newEpochBench(t *testing.T, configs ...func(*servers.RedisServer) Config) *epochBench {
	b := &epochBench{
		scriptBench: &scriptBench{T: t, clock: newTestClock()},
		server:      servers.Redis(t, servers.RedisOptions{AppendOnly: true, Config: map[string]string{"appendfsync": "always"}}),
	}
	b.admin = b.server.Client()
	cfg := append(configs, config)[0](b.server)
	cfg.Now = b.clock.now
	cfg.LeaseTTL, cfg.Policy = 10*time.Second, every(2*time.Second)
	b.Store = openStore(t, cfg)
	return b
}

// restart kills the server and starts it again with its data.
func (b *epochBench) restart() {
	b.Helper()
	if err := errors.Join(b.server.Kill(), b.server.Restart()); err != nil {
		b.Fatal(err)
	}
}

// hosts leases all hosts that are due, and returns the leases by host.
func (b *epochBench) hosts() map[string]frontier.Lease {
	b.Helper()
	hosts := map[string]frontier.Lease{}
	for tries := 0; ; tries++ {
		grant, err := b.Lease(b.Context(), frontier.LeaseRequest{IDs: leaseIDs(4)})
		if errors.Is(err, frontier.ErrUnavailable) && tries < 30 {
			continue // the connection is from before the restart
		}
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range grant.Leases {
			hosts[l.Host] = l
		}
		return hosts
	}
}

// wantDueIn checks that a host can be leased after a time, and not before.
func (b *epochBench) wantDueIn(host string, wait time.Duration) {
	b.Helper()
	const tick = 10 * time.Millisecond
	if early, ok := b.hosts()[host]; ok {
		b.Fatalf("%s is handed out at once, want it after %v: %q", host, wait, urlsOf(early.Items))
	}
	b.clock.advance(wait - tick)
	if _, ok := b.hosts()[host]; ok {
		b.Fatalf("%s is handed out before %v", host, wait)
	}
	b.clock.advance(tick)
	if _, ok := b.hosts()[host]; !ok {
		b.Fatalf("%s is not handed out after %v", host, wait)
	}
}

// TestEpochHoldsLeases: in a new epoch no host is leased until the TTL of a lease plus the
// host's delay have passed. Leases that the server still has continue.
func TestEpochHoldsLeases(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	mustAdd(t, b.Store, testPages("held.test", 0, 9))
	held := b.hosts()["held.test"]
	mustAdd(t, b.Store, testPages("waits.test", 0, 3))
	mustAdd(t, b.Store, testPages("slow.test", 0, 3))
	slow := b.hosts()["slow.test"]
	update := frontier.HostUpdate{Delay: 5 * time.Second, End: true}
	if err := b.Complete(t.Context(), slow.ID, nil, update); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.clock.advance(3 * time.Second)
	if got := b.hosts(); len(got) > 0 {
		t.Fatalf("Lease in a new epoch handed out %v, want nothing", got)
	}
	if _, err := b.Extend(t.Context(), held.ID, frontier.TopUp{}); err != nil {
		t.Fatalf("Extend of a lease that outlived the server: %v", err)
	}
	done := finish(held.Items[0])
	done.Links = testPages("waits.test", 3, 6)
	if err := b.Complete(t.Context(), held.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true, Delay: 2 * time.Second}); err != nil {
		t.Fatalf("Complete of a lease that outlived the server: %v", err)
	}
	b.wantDueIn("held.test", 12*time.Second)
	b.clock.advance(3 * time.Second)
	if _, ok := b.hosts()["slow.test"]; !ok {
		t.Error("slow.test is not handed out after the lease time and its own delay")
	}
	b.restart()
	mustAdd(t, b.Store, testPages("new.test", 0, 1))
	b.wantDueIn("new.test", 12*time.Second)
}

// TestEpochForgotLease: the server loses its last writes, among them a lease. The calls of
// the lease's holder are refused. The host is not leased again until its delay has passed
// since the last request that the holder can have sent.
func TestEpochForgotLease(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	mustAdd(t, b.Store, testPages("a.test", 0, 9))
	b.wantLost(func() frontier.Lease { return b.hosts()["a.test"] })
}

// TestEpochForgotExtension does the same as TestEpochForgotLease, but the server loses the
// extension of a lease.
func TestEpochForgotExtension(t *testing.T) {
	t.Parallel()
	b := newEpochBench(t)
	mustAdd(t, b.Store, testPages("a.test", 0, 9))
	l := b.hosts()["a.test"]
	b.clock.advance(9 * time.Second)
	b.wantLost(func() frontier.Lease {
		if _, err := b.Extend(t.Context(), l.ID, frontier.TopUp{}); err != nil {
			t.Fatal(err)
		}
		b.clock.advance(time.Second) // the old deadline
		return l
	})
}

// wantLost calls getLease, makes the server lose the writes of that call, and checks that
// the returned lease is lost. When getLease returns, the rest of the lease must not be longer
// than Config.LeaseTTL.
func (b *epochBench) wantLost(getLease func() frontier.Lease) {
	b.Helper()
	before := b.dump()
	l := getLease()
	lastUse := b.clock.now().Add(b.cfg.LeaseTTL - time.Second)
	b.restore(before)
	b.restart()
	b.hosts()
	done := []frontier.Completion{finish(l.Items[0])}
	if err := b.Complete(b.Context(), l.ID, done, frontier.HostUpdate{}); !errors.Is(err, frontier.ErrLeaseLost) {
		b.Errorf("Complete under a lease that the server forgot = %v, want ErrLeaseLost", err)
	}
	if _, err := b.Extend(b.Context(), l.ID, frontier.TopUp{}); !errors.Is(err, frontier.ErrLeaseLost) {
		b.Errorf("Extend of a lease that the server forgot = %v, want ErrLeaseLost", err)
	}
	b.wantDueIn("a.test", b.cfg.LeaseTTL+2*time.Second)
	if gap := b.clock.now().Sub(lastUse); gap < 2*time.Second {
		b.Errorf("the host is asked again %v after its last request, want at least 2s", gap)
	}
}

// TestEpochOffersLinksAgain: a server restarts after the links of a page were answered and
// before the page is completed. The server may have forgotten the links, so they are offered
// again.
func TestEpochOffersLinksAgain(t *testing.T) {
	t.Parallel()
	newEpochBench(t).wantLinksAgain(nil)
}

// TestAddedLinksAreOwed: links that were answered Added are queued again even if other URLs
// have reached a limit since the server lost the links.
func TestAddedLinksAreOwed(t *testing.T) {
	t.Parallel()
	for limit, set := range map[string]func(*Config){
		"MaxQueued":  func(cfg *Config) { cfg.Policy = policy.NewLive(&policy.Policy{MaxQueued: 6}).Load },
		"MaxPerHost": func(cfg *Config) { cfg.Policy = policy.NewLive(&policy.Policy{MaxPerHost: 5}).Load },
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			b := newEpochBench(t, func(server *servers.RedisServer) Config {
				cfg := config(server)
				set(&cfg)
				return cfg
			})
			b.wantLinksAgain(testPages("b.test", 10, 16))
		})
	}
}

// wantLinksAgain completes a page with links. After the links were answered, the server loses
// them and restarts. The offers in others are added before the links are offered again. All
// links must be queued in the end.
func (b *epochBench) wantLinksAgain(others []frontier.Offer) {
	b.Helper()
	mustAdd(b.T, b.Store, testPages("a.test", 0, 1))
	l := b.hosts()["a.test"]
	done := finish(l.Items[0])
	done.Links = testPages("b.test", 0, 5)
	before := b.dump()
	restarted := false
	b.output = &countingOutput{}
	var counts frontier.LinkCounts
	done.Record = func(links frontier.LinkCounts) error { // after the answers, before the completion
		counts = links
		if !restarted {
			restarted = true
			b.restore(before)
			b.restart()
			for _, err := b.Add(b.Context(), others); errors.Is(err, frontier.ErrUnavailable); {
				_, err = b.Add(b.Context(), others)
			}
		}
		return nil
	}
	var err error
	for range 30 {
		if err = b.Complete(b.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{End: true}); !errors.Is(err, frontier.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	if want := (frontier.LinkCounts{Found: 5, Added: 5}); counts != want {
		b.Errorf("the record got the link counts %+v, want %+v", counts, want)
	}
	queue := dumpQueue(b.T, b.Store)
	for _, link := range done.Links {
		if _, queued := queue[link.URL]; !queued {
			b.Errorf("%s is not queued", link.URL)
		}
	}
	for field, want := range map[string]int64{fieldDone: 1, fieldLeased: 0, fieldRecords: 1} {
		if got := b.counter(b.T, field); got != want {
			b.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
}

// TestLeaseKnowsItsEpoch: lease.lua leases no host in an epoch that is new to the
// partition.
func TestLeaseKnowsItsEpoch(t *testing.T) {
	t.Parallel()
	b := newScriptBench(t)
	b.add(0, 3, 0)
	b.admin.HSet(t.Context(), b.partition(faultHost).meta, fieldEpoch, "another")
	c := b.leaseCall(frontier.LeaseID{9})
	if b.runAll(t.Context(), []*call{c}); c.err != nil || integer(at(list(c.reply), 0)) != 0 {
		t.Errorf("lease.lua in an epoch that is new to the partition: reply %v, error %v, want no lease", c.reply, c.err)
	}
}
