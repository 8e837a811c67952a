package crawl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/topk"
)

// Reach counts the waiting URLs that something concerns.
type Reach struct {
	URLs  uint64      `json:"urls"`            // queued or leased
	Hosts []HostReach `json:"hosts,omitempty"` // those with the most of them, at most 10
}

// HostReach is the part of a Reach in one host.
type HostReach struct {
	Host     string   `json:"host"`
	URLs     uint64   `json:"urls"` // may be too high, if more than 1,000 hosts are concerned
	Examples []string `json:"examples"`
}

const (
	reachHosts    = 10   // in a Reach
	reachExamples = 3    // of a host
	reachCounted  = 1000 // hosts that are counted at once
)

// Reach counts the waiting URLs that a rule selects: see policy.ParseTarget. It reads the whole queue of the hosts that the
// rule selects.
func (h *Handle) Reach(ctx context.Context, rule string) (Reach, error) {
	return ask(ctx, h, verbReach, rule)
}

// reach implements Handle.Reach.
func (ses *session) reach(ctx context.Context, rule string) (Reach, error) {
	t, err := policy.ParseTarget(rule)
	if err != nil {
		return Reach{}, fmt.Errorf("%w: %q: %w", ErrRefused, rule, err)
	}
	return reach(ctx, ses.engine, oneHost(&t), func(item *frontier.Item) bool {
		offer := item.Offer()
		return t.Selects(&offer, ses.plan.exact.Name(item.Class))
	})
}

// oneHost returns the host key that a rule selects, or "" if it can select several.
func oneHost(t *policy.Target) string {
	if strings.Contains(t.Host(), "*") {
		return ""
	}
	return t.Host()
}

// refuses returns a function that reports whether a waiting item is dropped under the policy after, but not under before.
func (p *Plan) refuses(before, after *policy.Policy) func(*frontier.Item) bool {
	if after.Version == 0 { // it would refuse nothing
		later := *after
		later.Version = 1
		after = &later
	}
	return func(item *frontier.Item) bool {
		return fetcher.RefusedBy(after, p.canon, p.exact, item) != "" && fetcher.RefusedBy(before, p.canon, p.exact, item) == ""
	}
}

// reach counts the queued and leased items that concerned selects. An empty host means all hosts. It reads the whole
// queue of those, and its memory is bounded.
func reach(ctx context.Context, look frontier.Inspector, host string, concerned func(*frontier.Item) bool) (r Reach, err error) {
	counts, examples := topk.New(reachCounted), make(map[string][]string)
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased} {
		err = look.List(ctx, state, host, func(item frontier.Item) bool {
			if !concerned(&item) {
				return ctx.Err() == nil
			}
			r.URLs++
			counts.Add(item.Host, 1)
			if few := examples[item.Host]; len(few) < reachExamples {
				url, _ := frontier.Checked(item.URL)
				examples[item.Host] = append(few, url)
			}
			if len(examples) > 2*reachCounted { // keep those of hosts that are counted
				kept := make(map[string][]string, reachCounted)
				for _, e := range counts.Top(reachCounted) {
					kept[e.Key] = examples[e.Key]
				}
				examples = kept
			}
			return ctx.Err() == nil
		})
		if err != nil || ctx.Err() != nil {
			return r, cmp.Or(err, ctx.Err())
		}
	}
	for _, e := range counts.Top(reachHosts) {
		r.Hosts = append(r.Hosts, HostReach{Host: e.Key, URLs: e.Count, Examples: examples[e.Key]})
	}
	return r, nil
}
