package crawl

import (
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// mostOfHost is how many pages of one host wait in the queue for their next visit. So a slow host with many pages leaves
// room for the others.
const mostOfHost = mostQueued / 100

// plansOf returns how the pages of each host are visited again: by plan, unless the policy has a Recrawl of the host.
func plansOf(p *policy.Policy, plan revisit.Plan, census *revisit.Census) visits.Plans {
	var mu sync.Mutex
	own := make(map[revisit.Aim]revisit.Plan)
	return func(host string) visits.HostPlan {
		h := p.Host(host)
		if !h.OwnRecrawl {
			return visits.HostPlan{Plan: plan, Weight: h.Weight}
		}
		mu.Lock()
		defer mu.Unlock()
		of, made := own[h.Recrawl]
		if !made {
			of = h.Recrawl.Plan(census, p.RecrawlLimits)
			own[h.Recrawl] = of
		}
		return visits.HostPlan{Plan: of, Weight: h.Weight, Own: true}
	}
}

// postpone takes from the due rows those of hosts that have enough in the queue, and returns the others.
func (r *revisits) postpone(prints []bloomstore.Fingerprint, rows []visits.Row, now time.Time) ([]bloomstore.Fingerprint, []visits.Row, error) {
	due := make(map[string]int64) // rows
	for i := range rows {
		due[rows[i].Item.Host]++
	}
	room := make(map[string]int64)
	for host, n := range due {
		room[host] = n
		if n == 1 {
			continue // a host with many pages that are due has more of them here now and then
		}
		sum, err := r.store.Host(host)
		if err != nil {
			return nil, nil, err
		}
		room[host] = mostOfHost - sum.Queued
	}
	var wait []bloomstore.Fingerprint
	var waiting []visits.Row
	n := 0
	for i := range rows {
		if host := rows[i].Item.Host; room[host] <= 0 && !rows[i].Queued {
			wait, waiting = append(wait, prints[i]), append(waiting, rows[i])
			continue
		}
		room[rows[i].Item.Host]--
		prints[n], rows[n] = prints[i], rows[i]
		n++
	}
	if len(wait) == 0 {
		return prints, rows, nil
	}
	return prints[:n], rows[:n], r.store.Postpone(wait, waiting, now)
}

// refused takes from the due rows those that the policy refuses, which would only be dropped, and returns the others.
func (r *revisits) refused(p *policy.Policy, prints []bloomstore.Fingerprint, rows []visits.Row, now time.Time) ([]bloomstore.Fingerprint, []visits.Row, error) {
	var skip []bloomstore.Fingerprint
	var skipped []visits.Row
	n := 0
	for i := range rows {
		item := rows[i].Item.Item(prints[i])
		if !rows[i].Queued && fetcher.RefusedBy(p, r.ses.plan.canon, r.ses.plan.exact, &item) != "" {
			skip, skipped = append(skip, prints[i]), append(skipped, rows[i])
			continue
		}
		prints[n], rows[n] = prints[i], rows[i]
		n++
	}
	if len(skip) == 0 {
		return prints, rows, nil
	}
	return prints[:n], rows[:n], r.store.Skip(skip, skipped, now.Add(visits.OfferAgain))
}

// Claim implements fetcher.Visits.
func (r *revisits) Claim(claims []fetcher.Claim) error {
	r.mu.Lock()
	store := r.store
	r.mu.Unlock()
	if store == nil || !r.Active() {
		return nil
	}
	all := make([]visits.Lastmod, len(claims))
	for i, c := range claims {
		all[i] = visits.Lastmod{Item: r.ses.engine.Hasher().Fingerprint(c.URL), First: c.First, Until: c.Until}
	}
	return store.Claim(all, time.Now())
}
