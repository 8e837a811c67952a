package fetcher

import (
	"context"
	"math"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// reserveSeeds adds the hosts of seeds to the groups of their domains, even if a group then
// has more than Rules.MaxHosts hosts.
func (c *Crawl) reserveSeeds(ctx context.Context, hosts []string) error {
	_, err := c.cfg.Quota.Reserve(ctx, quotaKeys(hosts), math.MaxUint64)
	return err
}

func quotaKeys(hosts []string) []frontier.QuotaKey {
	keys := make([]frontier.QuotaKey, len(hosts))
	for i, host := range hosts {
		keys[i] = frontier.QuotaKey{Group: canon.Domain(host), Key: host}
	}
	return keys
}

// limitHosts decides whether the host of a link is within the limit of hosts of its domain.
func (l *linkSet) limitHosts(url canon.URL) follow.Finding {
	host := url.Host()
	if _, known := l.inQuota[host]; !known {
		l.reserveHosts([]string{host})
	}
	rules := &l.policy.Rules
	// If Reserve refuses a host, the group is full: it has MaxHosts hosts.
	return rules.LimitHosts(canon.Domain(host), l.inQuota[host], rules.MaxHosts)
}

// reserveHosts adds hosts to the groups of their domains, in one call to the store.
func (l *linkSet) reserveHosts(hosts []string) {
	if len(hosts) == 0 || l.err != nil {
		return
	}
	var has []bool
	l.err = l.whileUnavailable(l.hard, func() (err error) {
		has, err = l.cfg.Quota.Reserve(l.hard, quotaKeys(hosts), l.policy.Rules.MaxHosts)
		return err
	})
	if l.err != nil {
		return
	}
	if l.inQuota == nil {
		l.inQuota = make(map[string]bool, len(hosts))
	}
	for i, host := range hosts {
		l.inQuota[host] = has[i]
	}
}

// candidate is a link that passed all rules except the limit of hosts. The limit is
// checked for all links of a page at once.
type candidate struct {
	url      canon.URL
	priority frontier.Priority
}

// addCandidates offers the candidates whose hosts are within the limit.
func (l *linkSet) addCandidates(candidates []candidate) {
	var hosts []string
	asked := make(map[string]bool)
	for _, c := range candidates {
		if host := c.url.Host(); !asked[host] {
			asked[host] = true
			hosts = append(hosts, host)
		}
	}
	l.reserveHosts(hosts)
	for _, c := range candidates {
		l.add(c.url, c.priority, l.limitHosts(c.url))
	}
}
