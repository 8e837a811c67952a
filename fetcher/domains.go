package fetcher

import (
	"context"
	"math"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// claimSeeds gives hosts of seeds a place among those of their domains, however
// many there are.
func (c *Crawl) claimSeeds(ctx context.Context, hosts []string) error {
	_, err := c.cfg.Quota.Claim(ctx, quotaKeys(hosts), math.MaxUint64)
	return err
}

func quotaKeys(hosts []string) []frontier.QuotaKey {
	keys := make([]frontier.QuotaKey, len(hosts))
	for i, host := range hosts {
		keys[i] = frontier.QuotaKey{Group: canon.Domain(host), Key: host}
	}
	return keys
}

// place asks whether the host of a link is one of the first of its domain.
func (l *linkSet) place(url canon.URL) follow.Finding {
	host := url.Host()
	if _, known := l.hasPlace[host]; !known {
		l.claimHosts([]string{host})
	}
	rules := &l.cfg.Rules
	return rules.Place(canon.Domain(host), l.hasPlace[host], rules.MaxHosts) // a claim fails only if all are taken
}

// claimHosts asks the store at once which of hosts have a place.
func (l *linkSet) claimHosts(hosts []string) {
	if len(hosts) == 0 || l.err != nil {
		return
	}
	var has []bool
	l.err = l.whileUnavailable(func() (err error) {
		has, err = l.cfg.Quota.Claim(l.hard, quotaKeys(hosts), l.cfg.Rules.MaxHosts)
		return err
	})
	if l.err != nil {
		return
	}
	if l.hasPlace == nil {
		l.hasPlace = make(map[string]bool, len(hosts))
	}
	for i, host := range hosts {
		l.hasPlace[host] = has[i]
	}
}

// candidate is a link that every rule lets pass but the bound of hosts, which is
// decided for all links of a page at once.
type candidate struct {
	url      canon.URL
	priority frontier.Priority
}

// addCandidates offers those whose hosts have a place.
func (l *linkSet) addCandidates(candidates []candidate) {
	var hosts []string
	asked := make(map[string]bool)
	for _, c := range candidates {
		if host := c.url.Host(); !asked[host] {
			asked[host] = true
			hosts = append(hosts, host)
		}
	}
	l.claimHosts(hosts)
	for _, c := range candidates {
		if found := l.place(c.url); found.Answer == follow.Refuses {
			l.refuseLink(c.url, &found)
		} else {
			l.push(c.url, c.priority)
		}
	}
}
