package fetcher

import (
	"context"
	"math"
	"sync"

	"github.com/bloomfrontier/crawler/fetcher/extract"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// boundsHosts reports whether the hosts of a domain are limited.
func (r *Rules) boundsHosts() bool { return r.MaxHosts > 0 && r.Scope != canon.ScopeHost }

// seedHost gives the host of a seed a place among those of its domain, however
// many there are.
func (c *Crawl) seedHost(ctx context.Context, host string) error {
	_, err := c.cfg.Quota.Claim(ctx, canon.Domain(host), host, math.MaxUint64)
	return err
}

// placed reports whether a host is one of the first of its domain.
func (l *linkSet) placed(host string) bool {
	has, known := l.hasPlace[host]
	if known || l.err != nil {
		return has
	}
	has, l.err = l.claim(host)
	if l.err != nil {
		return false
	}
	l.setPlace(host, has)
	return has
}

func (l *linkSet) setPlace(host string, has bool) {
	if l.hasPlace == nil {
		l.hasPlace = make(map[string]bool)
	}
	l.hasPlace[host] = has
}

func (l *linkSet) claim(host string) (has bool, err error) {
	err = l.whileUnavailable(func() (err error) {
		has, err = l.cfg.Quota.Claim(l.hard, canon.Domain(host), host, l.cfg.Rules.MaxHosts)
		return err
	})
	return has, err
}

// claimers is how many places are asked for at once: each waits for the store.
const claimers = 16

// placeHosts asks for the places of all hosts that a page names, many at once.
func (l *linkSet) placeHosts(document *extract.Page) {
	rules := &l.cfg.Rules
	if !rules.boundsHosts() {
		return
	}
	var hosts []string
	asked := make(map[string]bool)
	for i := range document.Links {
		host := document.Links[i].URL.Host()
		if asked[host] || rules.Scope != canon.ScopeAny && !l.scoped(host) {
			continue
		}
		asked[host] = true
		hosts = append(hosts, host)
	}
	if len(hosts) < 2 || l.err != nil {
		return // placed asks for it
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	next := make(chan string)
	for range min(claimers, len(hosts)) {
		group.Go(func() {
			for host := range next {
				has, err := l.claim(host)
				mu.Lock()
				if err != nil {
					l.err = err
				} else {
					l.setPlace(host, has)
				}
				mu.Unlock()
			}
		})
	}
	for _, host := range hosts {
		next <- host
	}
	close(next)
	group.Wait()
}
