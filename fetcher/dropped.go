package fetcher

import (
	"context"
	"fmt"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// dropped is RefusedBy for the present policy.
func (h *holding) dropped(item *frontier.Item) string {
	return RefusedBy(h.cfg.Policy(), h.cfg.Canon, h.cfg.Exact, item)
}

// RefusedBy returns why a policy refuses an item that waits, in words, or "". It applies those rules that a change of the
// policy can make stricter. A policy that was never changed refuses none, and only Policy.Drop and Policy.Block refuse seeds.
func RefusedBy(p *policy.Policy, form *canon.Canonicalizer, classes *exact.Rules, item *frontier.Item) string {
	offer := item.Offer()
	if rule, _ := p.Refusal(&offer, item.Fingerprint, classes.Name); rule != "" {
		return fmt.Sprintf("version %d of the policy %s", p.Version, rule)
	}
	if p.Version == 0 || item.Priority == frontier.PrioritySeed {
		return ""
	}
	raw, isCheck := frontier.Checked(item.URL)
	why := ""
	switch {
	case isCheck && !p.CheckExternal:
		why = "links that lead out are not checked"
	case !p.Sitemaps && item.Class == frontier.Sitemap:
		why = "sitemaps are not crawled"
	case !p.Assets && item.Priority == frontier.PriorityAsset:
		why = "assets are not crawled"
	default:
		url, err := form.Parse(raw)
		if err != nil {
			return "" // the item ends with another outcome
		}
		link := follow.Link{URL: url, Depth: int(item.Depth), Hops: int(item.Hops)}
		if isCheck {
			link.Kind = follow.Outside
		} else if item.Class == frontier.Sitemap {
			link.Kind = follow.Named
		}
		rules := p.Rules
		rules.Scope = canon.ScopeAny // the scope never changes
		found, _ := rules.Judge(context.Background(), &link, anyPort{})
		if found.Answer != follow.Refuses {
			return ""
		}
		why = inWords(&rules, &found)
	}
	return fmt.Sprintf("version %d of the policy refuses it: %s", p.Version, why)
}

// anyPort is a follow.Crawl without rules of its own.
type anyPort struct{}

// CheckPort implements follow.Crawl.
func (anyPort) CheckPort(string) error { return nil }

// Opened implements follow.Crawl.
func (anyPort) Opened(_ context.Context, host string) (string, error) { return host, nil }

// permitOf is permit for the request of an item. A new policy can refuse or pause the item after its turn
// came. Then the item is given back, and dropped or put off when it comes again.
func (h *holding) permitOf(item *frontier.Item) func() error {
	return func() error {
		if err := h.permit(); err != nil {
			return err
		}
		if h.dropped(item) != "" || h.cfg.Policy().Paused(h.lease.Host, item.URL) {
			return errStop
		}
		return nil
	}
}
