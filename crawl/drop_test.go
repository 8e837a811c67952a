package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// waitingURLs adds 100 URLs of each of three hosts, of which a.test has a seed in front.
func waitingURLs(t *testing.T, ses *session) {
	t.Helper()
	var offers []frontier.Offer
	for i := range 300 {
		host := string(rune('a'+i%3)) + ".test"
		offers = append(offers, frontier.Offer{URL: fmt.Sprintf("http://%s/%d", host, i), Host: host, Depth: uint16(i / 3), Priority: frontier.PriorityPage})
	}
	offers[0].Priority = frontier.PrioritySeed
	if _, err := ses.engine.Add(t.Context(), offers); err != nil {
		t.Fatal(err)
	}
}

// dues returns when each host is due.
func dues(t *testing.T, ses *session) map[string]time.Time {
	t.Helper()
	all := make(map[string]time.Time)
	err := ses.engine.Hosts(t.Context(), frontier.HostQuery{}, func(h frontier.HostState) bool {
		all[h.Host] = time.Now().Add(h.DueIn)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDrop: the command drops what waits in hosts that are not due, in a running crawl and in one that does not run, changes no
// due time and no order, and leaves a record of each URL. A retry of dropped URLs withdraws the rule.
func TestDrop(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		c.Settings.Delay = 10 * time.Minute
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		waitingURLs(t, run.ses)
		grant, err := run.ses.engine.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}, {2}, {3}}})
		if err != nil || len(grant.Leases) != 3 {
			t.Fatal(len(grant.Leases), err)
		}
		for _, l := range grant.Leases {
			update := frontier.HostUpdate{Due: time.Hour, Delay: 10 * time.Minute, End: true}
			if err := run.ses.engine.Complete(t.Context(), l.ID, nil, update); err != nil {
				t.Fatal(err)
			}
		}
		before := dues(t, run.ses)
		drop := func(h *Handle, rule string, urls, hosts uint64) {
			t.Helper()
			changed(t, h, Change{Values: []string{"drop+=" + rule}, Who: "a@b"})
			for range 2 { // a repeat drops nothing more
				got, err := h.Drop(t.Context(), rule)
				if want := (Dropped{urls, hosts}); err != nil || got != want {
					t.Errorf("Drop(%s) = %+v, %v, want %+v", rule, got, err, want)
				}
				urls, hosts = 0, 0
			}
		}
		attached, err := Attach(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		drop(run.Handle, "host=b.test", 100, 1)
		drop(attached, "depth=50.. match=[02468]$", 50, 2)
		for host, due := range dues(t, run.ses) {
			if d := due.Sub(before[host]); d.Abs() > time.Second {
				t.Errorf("%s is due %v later than before", host, d)
			}
		}
		var order []string
		err = run.ses.engine.List(t.Context(), frontier.Queued, "a.test", func(it frontier.Item) bool {
			order = append(order, it.URL)
			return true
		})
		if err != nil || len(order) != 75 || order[0] != "http://a.test/0" || order[1] != "http://a.test/3" || order[74] != "http://a.test/297" {
			t.Errorf("the queue of a.test is %q, %v", order, err)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		drop(attached, "host=c.test match=[13579]$", 50, 1)
		st, err := attached.Status(t.Context())
		if err != nil || st.Stats.Added != 300 || st.Stats.Failed != 200 || st.Stats.Outcomes[frontier.Dropped] != 200 || len(st.Drops) != 3 {
			t.Errorf("the status is %+v, %v", st, err)
		}
		if audit, err := attached.Audit(t.Context()); err != nil || !audit.Balanced {
			t.Errorf("the audit says %+v, %v", audit, err)
		}
		records := make(map[string]int)
		if c.Redis == nil {
			for line, err := range attached.Records(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(line), `"outcome":"dropped"`) && strings.Contains(string(line), "of the policy drops it: ") {
					records[string(line)]++
				}
			}
			if len(records) != 200 {
				t.Errorf("%d records of dropped URLs, want 200", len(records))
			}
		}
		r, err := attached.Retry(t.Context(), Failures{Host: "b.test", Outcome: frontier.Dropped}, "a@b")
		if err != nil || r.URLs != 100 || len(r.Withdrawn) != 1 || len(r.Left) != 2 {
			t.Errorf("a retry of b.test is %+v, %v", r, err)
		}
		r, err = attached.Retry(t.Context(), Failures{Outcome: frontier.Dropped, Within: time.Hour}, "a@b")
		if st, _ := attached.Status(t.Context()); err != nil || r.URLs != 100 || len(r.Withdrawn) != 2 || len(st.Drops) > 0 || st.Stats.Queued != 300 {
			t.Errorf("a retry of all is %+v, %v, drops %q, %d queued", r, err, st.Drops, st.Stats.Queued)
		}
	})
}
