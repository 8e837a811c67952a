package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestLostAnswersToLinks: the answer to the offer of a page's exact links is lost after they were queued. The completion is repeated,
// and asks the set nothing new. A link that ended meanwhile is not queued again. One that was decided long ago is left to
// a forwarder.
func TestLostAnswersToLinks(t *testing.T) {
	for _, link := range []string{"waits", "ended", "waits for long", "waits while the set is away"} {
		t.Run(link, func(t *testing.T) {
			t.Parallel()
			set := &countingSet{Set: exacttest.NewMemory(exacttest.Options{})}
			decided := time.Now()
			c := newLostReply(t, func(server *servers.RedisServer) Config {
				cfg := exactConfig(server)
				cfg.Exact = newClient(set)
				cfg.Exact.Now = func() time.Time { return decided }
				cfg.Exact.End = func(ends []exact.Finished) { _ = set.Finish(t.Context(), ends, nil) }
				return cfg
			})
			mustAdd(c, c.Store, testPages("a.test", 0, 1))
			l := c.leaseOf("a.test")
			done := finish(l.Items[0])
			done.Links = slices.Concat(asExact(testPages("b.test", 3, 4)), testPages("b.test", 5, 6))
			complete := func(ctx context.Context) error {
				return c.Complete(ctx, l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
			}
			c.lose(addScript, complete)
			switch link {
			case "ended":
				endHost(t, c.Store, frontier.OK, frontier.OK)
			case "waits for long":
				decided = decided.Add(time.Minute)
			case "waits while the set is away":
				set.away = fmt.Errorf("set: %w", frontier.ErrUnavailable)
				if err := complete(c.Context()); !errors.Is(err, frontier.ErrUnavailable) {
					t.Errorf("Complete while the set is away = %v, want ErrUnavailable", err)
				}
				set.away = nil
			}
			if err := complete(c.Context()); err != nil {
				t.Fatal(err)
			}
			if set.decided != 1 {
				t.Errorf("the set was asked %d times, want once", set.decided)
			}
			stats := wantBooks(t, c.Store)
			queued := uint64(2)
			if link == "ended" {
				queued = 0
			}
			if stats.Added != 3 || stats.Queued != queued {
				t.Errorf("%d added and %d queued, want 3 and %d", stats.Added, stats.Queued, queued)
			}
			want := exact.Queued
			switch link {
			case "ended":
				want = exact.Done
			case "waits for long":
				want = exact.Pending
			}
			if status, _ := set.Lookup(t.Context(), c.hasher.Fingerprint(done.Links[0].URL)); status.State != want {
				t.Errorf("the set has the link in state %q, want %q", status.State, want)
			}
		})
	}
}

// countingSet counts the calls of Decide. Its Lookup returns an error if there is one.
type countingSet struct {
	exact.Set
	decided int
	away    error
}

func (c *countingSet) Lookup(ctx context.Context, key bloomstore.Fingerprint) (exact.Status, error) {
	if c.away != nil {
		return exact.Status{}, c.away
	}
	return c.Set.Lookup(ctx, key)
}

func (c *countingSet) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	c.decided++
	return c.Set.Decide(ctx, keys)
}

// TestExactAsideOfBulk: while the set is away, a completion of a bulk item without exact links takes effect, and a
// completion of an exact item, or with exact links, changes nothing.
func TestExactAsideOfBulk(t *testing.T) {
	t.Parallel()
	cfg, away := exactConfig(servers.Redis(t, servers.RedisOptions{})), &deadSet{Set: exacttest.NewMemory(exacttest.Options{})}
	cfg.Exact = newClient(away)
	s := openStore(t, cfg)
	mustAdd(t, s, slices.Concat(testPages("a.test", 0, 2), asExact(testPages("a.test", 2, 3))))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 || len(grant.Leases[0].Items) != 3 {
		t.Fatalf("Lease = %+v, %v, want three items", grant, err)
	}
	l := grant.Leases[0]
	bulk, linking, ended := finish(l.Items[0]), finish(l.Items[1]), finish(l.Items[2])
	linking.Links = asExact(testPages("b.test", 0, 1))
	complete := func(done frontier.Completion) error {
		return s.Complete(t.Context(), l.ID, []frontier.Completion{done}, frontier.HostUpdate{})
	}
	away.err = fmt.Errorf("set: %w", frontier.ErrUnavailable)
	for range 2 { // the first call finds out that the set is away
		if err := complete(linking); !errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("Complete with an exact link = %v, want ErrUnavailable", err)
		}
		if err := complete(ended); !errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("Complete of an exact item = %v, want ErrUnavailable", err)
		}
	}
	if err := complete(bulk); err != nil {
		t.Error(err)
	}
	if stats := wantBooks(t, s); stats.Done != 1 || stats.Leased != 2 || stats.Found != 3 {
		t.Errorf("the books are %+v, want 1 done, 2 leased, 3 found", stats.Books)
	}
	away.err = nil
	for _, done := range []frontier.Completion{linking, ended} {
		if err := complete(done); err != nil {
			t.Error(err)
		}
	}
}

// deadSet is a Set whose calls return an error if there is one.
type deadSet struct {
	exact.Set
	err error
}

func (d *deadSet) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Set.Decide(ctx, keys)
}

func (d *deadSet) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Set.Waiting(ctx, after, n)
}

func (d *deadSet) Lookup(ctx context.Context, key bloomstore.Fingerprint) (exact.Status, error) {
	if d.err != nil {
		return exact.Status{}, d.err
	}
	return d.Set.Lookup(ctx, key)
}

// endOutput is an output that stores ends when it is synced, like an exact.Output.
type endOutput struct {
	countingOutput
	given, stored []exact.Finished
	err           error // of the next Sync
}

func (o *endOutput) Sync() (frontier.Position, error) {
	err := o.err
	if o.err = nil; err == nil {
		o.stored = append(o.stored, o.given...)
	}
	o.given = nil
	return nil, err
}

// TestEndsAreStoredFirst: the end of an exact item, with a record or without, is stored by the Sync after its
// record, and before the item is completed. If that fails, nothing is completed. After that, the record of the
// item is not voided, and not written again. Items that are bulk, retried or given back have no end.
func TestEndsAreStoredFirst(t *testing.T) {
	t.Parallel()
	server, out := servers.Redis(t, servers.RedisOptions{}), new(endOutput)
	cfg := exactConfig(server)
	cfg.Exact.End = func(ends []exact.Finished) { out.given = append(out.given, ends...) }
	cfg.OpenOutput = func(frontier.Identity, frontier.Position) (frontier.Output, error) { return out, nil }
	s := openStore(t, cfg)
	mustAddDecided(t, s, exact.New, 0, testPages("a.test", 0, 4))
	mustAdd(t, s, testPages("a.test", 4, 5))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	if err != nil || len(grant.Leases) != 1 || len(grant.Leases[0].Items) != 5 {
		t.Fatalf("Lease = %+v, %v, want five items", grant, err)
	}
	l := grant.Leases[0]
	var done []frontier.Completion
	for _, item := range l.Items {
		c := finish(item)
		c.Record, c.Void = out.write, func() error { t.Error("a record was voided"); return nil }
		done = append(done, c)
	}
	done[0].Status = 204
	done[1] = frontier.Completion{Item: l.Items[1].Fingerprint, Outcome: frontier.Network}
	done[2] = frontier.Completion{Item: l.Items[2].Fingerprint, Disposition: frontier.Retry}
	complete := func(done ...frontier.Completion) error {
		return s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{})
	}
	away := fmt.Errorf("set: %w", frontier.ErrUnavailable)
	out.err = away
	if err := complete(done[0], done[1], done[2], done[4]); !errors.Is(err, away) {
		t.Fatalf("Complete while ends cannot be stored = %v, want %v", err, away)
	}
	if stats := wantBooks(t, s); stats.Leased != 5 {
		t.Errorf("%d items are leased after that, want all 5", stats.Leased)
	}
	if err := complete(done[0], done[1], done[2], done[4]); err != nil {
		t.Fatal(err)
	}
	end := func(i int, outcome frontier.Outcome, status int) exact.Finished {
		return exact.Finished{Ref: exact.Ref{Fingerprint: l.Items[i].Fingerprint}, Class: frontier.Exact, Outcome: outcome, Status: status}
	}
	if want := []exact.Finished{end(0, frontier.OK, 204), end(1, frontier.Network, 0)}; !slices.Equal(out.stored, want) {
		t.Errorf("stored ends %+v, want %+v", out.stored, want)
	}
	if out.records != 2 {
		t.Errorf("%d records were written, want 2", out.records)
	}
	out.err = away
	if err := complete(done[3]); !errors.Is(err, away) {
		t.Fatal(err)
	}
	if err := s.client.Del(t.Context(), s.partition("a.test").active("a.test")).Err(); err != nil {
		t.Fatal(err)
	}
	if err := complete(done[3]); !errors.Is(err, frontier.ErrLeaseLost) {
		t.Errorf("Complete under a lost lease = %v, want ErrLeaseLost", err)
	}
}

// TestEndsNeedAnOutput: without Exact.End or an output, an exact set would not learn how items ended. So
// nothing is completed.
func TestEndsNeedAnOutput(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	for name, lack := range map[string]func(*Config){
		"end":    func(c *Config) { c.Exact.End = nil },
		"output": func(c *Config) { c.OpenOutput = nil },
	} {
		cfg := exactConfig(server)
		cfg.Name = name
		lack(&cfg)
		s := openStore(t, cfg)
		mustAddDecided(t, s, exact.New, 0, testPages("a.test", 0, 1))
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
		if err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease = %+v, %v, want one lease", grant, err)
		}
		l := grant.Leases[0]
		if err := s.Complete(t.Context(), l.ID, []frontier.Completion{finish(l.Items[0])}, frontier.HostUpdate{}); err == nil {
			t.Errorf("Complete without %s: no error", name)
		}
		if stats := wantBooks(t, s); stats.Leased != 1 {
			t.Errorf("without %s, %d items are leased, want 1", name, stats.Leased)
		}
	}
}
