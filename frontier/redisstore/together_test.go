package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// heldCalls delays the calls to a node until run is called.
type heldCalls struct {
	run    func(context.Context)
	groups [][]*call // groups that ran
}

func (h *heldCalls) hold(s *Store, n *node) {
	n.calls = groupcommit.New(groupcommit.Config[*call]{
		MaxSize: maxGroupedCalls,
		Go: func(run func(context.Context)) error {
			h.run = run
			return nil
		},
		Commit: func(ctx context.Context, group []*call) {
			h.groups = append(h.groups, group)
			s.runGroup(ctx, n, group)
		},
	})
}

// TestCallsTravelTogether makes calls wait for a pipeline. Each caller gets the
// answer to its own call, and a caller that does not wait gets none.
func TestCallsTravelTogether(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	n := s.nodes.single
	ep, err := s.epochOf(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	var held heldCalls
	held.hold(s, n)

	const callers = 2*maxGroupedCalls + 1
	calls := make([]*call, callers)
	var group sync.WaitGroup
	for i := range calls {
		calls[i] = confirmCall(s, nil)
		if i%2 == 1 {
			calls[i].required = &epoch{node: n} // another epoch of the server
		}
		group.Go(func() { calls[i] = s.runTogether(t.Context(), calls[i]) })
	}
	eventually(t, "all calls", func() bool { return n.calls.Len() == callers })
	leaving, leave := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	leave(gone)
	left := s.runTogether(leaving, confirmCall(s, nil))
	if !errors.Is(left.err, gone) || n.calls.Len() != callers+1 {
		t.Errorf("the caller that left got %v, want %v; %d calls wait, want %d", left.err, gone, n.calls.Len(), callers+1)
	}

	held.run(t.Context())
	group.Wait()
	for i, c := range calls {
		switch {
		case i%2 == 1 && (!errors.Is(c.err, errEpoch) || c.ran != nil):
			t.Errorf("call %d of another epoch: error %v, ran in epoch %p, want errEpoch", i, c.err, c.ran)
		case i%2 == 0 && (c.err != nil || c.ran != ep || integer(c.reply) != 1):
			t.Errorf("call %d: error %v, reply %v, ran in epoch %p, want reply 1 in epoch %p", i, c.err, c.reply, c.ran, ep)
		}
	}
	if n.calls.Len() > 0 || len(held.groups) != 3 {
		t.Errorf("%d calls wait after %d groups, want 0 after 3", n.calls.Len(), len(held.groups))
	}
}

// TestCompletionsOfOneLeaseAreOneCall makes completions of a lease wait for one pipeline.
// The completions up to the one that ends the lease take effect in one step, as if they had been
// made one after the other. The later completions are refused.
func TestCompletionsOfOneLeaseAreOneCall(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	mustAdd(t, s, append(testPages("a.test", 0, 6), testPages("b.test", 0, 1)...))
	leases := make(map[string]frontier.Lease)
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(2)})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range grant.Leases {
		leases[l.Host] = l
	}
	a, b := leases["a.test"], leases["b.test"]
	linked := finish(a.Items[0])
	linked.Links = testPages("c.test", 0, 3)
	completes := []struct {
		lease  frontier.Lease
		done   frontier.Completion
		update frontier.HostUpdate
		want   error
	}{
		{lease: a, done: linked, update: frontier.HostUpdate{Blob: []byte("old")}},
		{lease: a, done: finish(a.Items[1]), update: frontier.HostUpdate{Blob: []byte("new"), Delay: time.Minute}},
		{lease: b, done: finish(b.Items[0])},
		{lease: a, done: frontier.Completion{Item: a.Items[2].Fingerprint, Outcome: frontier.Network}},
		{lease: a, done: frontier.Completion{Item: a.Items[3].Fingerprint, Disposition: frontier.GiveBack},
			update: frontier.HostUpdate{End: true, Delay: time.Second}},
		{lease: a, done: finish(a.Items[4]), want: frontier.ErrLeaseLost},
	}
	n := s.nodes.single
	var held heldCalls
	held.hold(s, n)
	var group sync.WaitGroup
	for i, c := range completes {
		group.Go(func() {
			err := s.Complete(t.Context(), c.lease.ID, []frontier.Completion{c.done}, c.update)
			if !errors.Is(err, c.want) {
				t.Errorf("completion %d: %v, want %v", i, err, c.want)
			}
		})
		eventually(t, "the completion to wait", func() bool { return n.calls.Len() == i+1 })
	}
	held.run(t.Context())
	group.Wait()
	together := held.groups[0]

	for i, wantIn := range []int{-1, 0, -1, 0, 0, -1} {
		if in := slices.Index(together, together[i].joined); in != wantIn {
			t.Errorf("completion %d went in the call of completion %d, want %d (-1 means its own call)", i, in, wantIn)
		}
	}
	for field, want := range map[string]int64{
		fieldDone: 3, fieldFailed: 1, fieldLeased: 0, fieldQueued: 6, fieldPages: 3, fieldHosts: 2, fieldAdded: 10,
	} {
		if got := counter(t, s, field); got != want {
			t.Errorf("counter %q is %d, want %d", field, got, want)
		}
	}
	state := s.client.HMGet(t.Context(), s.partition("a.test").host("a.test"), "b", "y").Val()
	if want := []any{"new", "1000"}; !slices.Equal(state, want) {
		t.Errorf("blob and delay of the host are %q, want %q", state, want)
	}
}

func TestRunTogetherOnClosedStore(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	s := openStore(t, config(server))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := s.runTogether(t.Context(), confirmCall(s, nil)); !errors.Is(c.err, frontier.ErrClosed) {
		t.Errorf("a call of a closed store: %v, want ErrClosed", c.err)
	}
}
