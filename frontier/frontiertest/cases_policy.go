package frontiertest

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// RunPolicies checks that a store obeys each new policy at the next call. The function open returns a
// new store with opt.Now and the policy, which replaces the limits in opt.
func RunPolicies(t *testing.T, open func(t *testing.T, opt Options, present func() *policy.Policy) Crawl) {
	for name, check := range map[string]func(*policies){
		"Delay": (*policies).delay, "DelayOfOneHost": (*policies).delayOfOneHost, "NewHostsDoNotWait": (*policies).newHosts, "MaxPerHost": (*policies).maxPerHost,
		"DelayInTheQueueOfASite": (*policies).delayInQueue,
	} {
		t.Run(name, func(t *testing.T) {
			p := &policies{T: t, clock: suite.NewClock(), live: policy.NewLive(&policy.Policy{Politeness: politeness.Policy{Delay: time.Second}, DomainRate: 1})}
			p.Crawl = open(t, Options{Now: p.clock.Now}, p.live.Load)
			check(p)
		})
	}
}

// policies is a store under a policy that changes.
type policies struct {
	*testing.T
	Crawl
	clock *suite.Clock
	live  *policy.Live
	ids   byte
}

// change stores a new policy.
func (p *policies) change(change func(*policy.Policy)) {
	next := *p.live.Load()
	next.Version++
	change(&next)
	p.live.Store(&next)
}

func (p *policies) setDelay(delay time.Duration) {
	p.change(func(next *policy.Policy) { next.Politeness.Delay = delay })
}

// add offers pages of a host, and checks how many of them are added. The host refuses the others.
func (p *policies) add(host string, first, end, want int) {
	p.Helper()
	verdicts, err := p.Add(p.Context(), pages(host, first, end))
	if err != nil {
		p.Fatal(err)
	}
	added := 0
	for _, v := range verdicts {
		if v.Answer == frontier.Added {
			added++
		} else if v.Reason != frontier.ReasonHostLimit {
			p.Errorf("pages %d to %d of %s: %+v, want them added, or refused because of the host's limit", first, end, host, v)
		}
	}
	if added != want {
		p.Errorf("%d of pages %d to %d of %s are added, want %d", added, first, end, host, want)
	}
}

// lease checks which hosts are leased after a time, and ends their leases with a delay.
func (p *policies) lease(after, delay time.Duration, want ...string) {
	p.Helper()
	p.clock.Advance(after)
	ids := make([]frontier.LeaseID, 4)
	for i := range ids {
		p.ids++
		ids[i] = frontier.LeaseID{p.ids}
	}
	grant, err := p.Lease(p.Context(), frontier.LeaseRequest{Worker: "suite", IDs: ids})
	if err != nil {
		p.Fatal(err)
	}
	leased := map[string]bool{}
	for _, l := range grant.Leases {
		leased[l.Host] = true
		if err := p.Complete(p.Context(), l.ID, nil, frontier.HostUpdate{Due: delay, Delay: delay, End: true}); err != nil {
			p.Fatal(err)
		}
	}
	for _, host := range want {
		if !leased[host] {
			p.Errorf("%s is not leased", host)
		}
	}
	if len(grant.Leases) != len(want) {
		p.Errorf("%d hosts are leased, want %q", len(grant.Leases), want)
	}
}

// delay: a longer delay holds back a host that waits for a shorter one. A shorter delay does not
// shorten a wait.
func (p *policies) delay() {
	p.add("a.test", 0, 2, 2)
	p.add("b.test", 0, 2, 2)
	p.lease(0, time.Second, "a.test", "b.test")
	p.setDelay(10 * time.Second)
	p.lease(time.Second, 0)
	p.setDelay(20 * time.Second)
	p.lease(10*time.Second, 0)
	p.lease(8900*time.Millisecond, 0)
	p.lease(200*time.Millisecond, 20*time.Second, "a.test", "b.test")
	p.setDelay(time.Second)
	p.lease(time.Second, 0)
	p.lease(19*time.Second, time.Second, "a.test", "b.test")
	p.lease(time.Second, time.Second, "a.test", "b.test")
}

func (p *policies) delayOfOneHost() {
	p.add("a.test", 0, 2, 2)
	p.add("b.test", 0, 2, 2)
	p.lease(0, time.Second, "a.test", "b.test")
	p.change(func(next *policy.Policy) {
		next.Hosts = policy.NewHosts(policy.Override{Pattern: "b.*", Delay: 30 * time.Second})
	})
	p.lease(time.Second, time.Hour, "a.test")
	p.lease(28*time.Second, 0)
	p.lease(time.Second, 30*time.Second, "b.test")
}

// newHosts: a host that has got no request yet does not wait.
func (p *policies) newHosts() {
	p.add("a.test", 0, 2, 2)
	p.setDelay(time.Hour)
	p.lease(time.Second, time.Hour, "a.test")
}

// delayInQueue: a host that waits for a place in its site obeys a longer delay, also when a place becomes free.
func (p *policies) delayInQueue() {
	p.add("h0.site.test", 0, 2, 2)
	p.lease(0, time.Second, "h0.site.test")
	p.add("h1.site.test", 0, 2, 2)
	id := frontier.LeaseID{200}
	grant, err := p.Lease(p.Context(), frontier.LeaseRequest{Worker: "suite", IDs: []frontier.LeaseID{id}})
	for n := 0; err == nil && len(grant.Leases) == 0 && n < 10; n++ { // the place of h0 ends
		p.clock.Advance(100 * time.Millisecond)
		grant, err = p.Lease(p.Context(), frontier.LeaseRequest{Worker: "suite", IDs: []frontier.LeaseID{id}})
	}
	if err != nil || len(grant.Leases) != 1 || grant.Leases[0].Host != "h1.site.test" {
		p.Fatalf("Lease = %+v, %v, want the other host", grant, err)
	}
	p.lease(2*time.Second, 0) // h0 waits
	p.setDelay(time.Minute)
	p.lease(2*time.Second, 0)
	if err := p.Complete(p.Context(), id, nil, frontier.HostUpdate{Delay: time.Minute, Due: time.Hour, End: true}); err != nil {
		p.Fatal(err)
	}
	p.add("h2.site.test", 0, 2, 2)
	p.clock.Advance(2 * time.Second)
	p.lease(0, time.Hour, "h2.site.test") // the place is free, but h0 is not due
	p.lease(20*time.Second, 0)
	p.lease(2*time.Minute, time.Hour, "h0.site.test")
}

func (p *policies) maxPerHost() {
	limit := func(most uint64) { p.change(func(next *policy.Policy) { next.MaxPerHost = most }) }
	limit(5)
	p.add("a.test", 0, 3, 3)
	limit(4)
	p.add("a.test", 3, 6, 1)
	limit(3)
	p.add("a.test", 6, 8, 0)
	limit(6)
	p.add("a.test", 8, 12, 2)
	p.change(func(next *policy.Policy) {
		next.Hosts = policy.NewHosts(policy.Override{Pattern: "a.test", MaxItems: 7})
	})
	p.add("a.test", 12, 14, 1)
	if err := p.Admit(p.Context(), []string{frontier.SeedHost("a.test")}); err != nil {
		p.Fatal(err)
	}
	p.change(func(next *policy.Policy) { next.SeedsUnlimited, next.Hosts = true, policy.Hosts{} })
	p.add("a.test", 14, 20, 6)
	p.change(func(next *policy.Policy) { next.SeedsUnlimited = false })
	p.add("a.test", 20, 22, 0)
	limit(0)
	p.add("a.test", 22, 24, 2)
}
