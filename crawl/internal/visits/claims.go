package visits

import (
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Lastmod is what a sitemap says of a page: that it was modified last between First and Until.
type Lastmod struct {
	Item         bloomstore.Fingerprint
	First, Until time.Time
}

// claim returns what the sitemap claims of a page that was visited last at a time. It claims nothing if the page can have been modified
// before or after that visit.
func (l *Lastmod) claim(visited time.Time) Claim {
	switch {
	case l.First.After(visited):
		return ClaimChanged
	case !l.Until.After(visited):
		return ClaimSame
	}
	return 0
}

const (
	claimStep = 1000
	// sameAgain is when a claim that a page is the same is stored again, if it is repeated. Until then it is as old as it was.
	sameAgain = 12 * time.Hour
)

// Claim notes what a sitemap says of pages, of those that are known. The pages of a host whose sitemaps proved right are due
// at once if they have changed, but not before their max-age has ended. Other claims are only compared with what the next visit finds.
func (s *Store) Claim(all []Lastmod, now time.Time) error {
	for len(all) > 0 {
		n := min(len(all), claimStep)
		if err := s.claim(all[:n], now); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func (s *Store) claim(all []Lastmod, now time.Time) error {
	items := make([]bloomstore.Fingerprint, len(all))
	for i := range all {
		items[i] = all[i].Item
	}
	known, err := s.Rows(items)
	if err != nil || len(known) == 0 {
		return err
	}
	trusted := make(map[string]bool)
	var news []Lastmod
	items = items[:0]
	for i := range all {
		row, is := known[all[i].Item]
		if !is || row.Visited.IsZero() {
			continue
		}
		if after := row; after.claimed(&all[i], now, true) {
			news, items = append(news, all[i]), append(items, all[i].Item)
			if _, asked := trusted[row.Item.Host]; !asked {
				sum, err := s.db.host(row.Item.Host)
				if err != nil {
					return err
				}
				trusted[row.Item.Host] = sum.Trusted()
			}
		}
	}
	if len(news) == 0 {
		return nil
	}
	return s.change("claimed", items, func(c *change) error {
		for i := range news {
			before, found := c.row(news[i].Item)
			if !found {
				continue
			}
			after := before
			if after.claimed(&news[i], now, trusted[before.Item.Host]) {
				c.replace(news[i].Item, &before, &after)
			}
		}
		return nil
	})
}

// claimed changes a row by what a sitemap says, and reports whether it has changed.
func (r *Row) claimed(l *Lastmod, now time.Time, trusted bool) bool {
	claim, at := l.claim(r.Visited), later(now, r.NotBefore)
	early := claim == ClaimChanged && trusted && !r.Queued && !r.Later && r.Missing == 0 && r.Next.After(at)
	said := claim == 0 || claim == r.Claim && (claim == ClaimChanged || now.Sub(r.Claimed) < sameAgain)
	if said && !early {
		return false
	}
	r.Claim, r.Claimed = claim, now
	if early {
		r.Next = at
	}
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// judge compares what a sitemap said of a page with what a visit found. That the page was the same counts only if it was said shortly
// before the visit, in the last tenth of the time since the visit before: the page can have changed since.
func (c *change) judge(before *Row, at time.Time, said revisit.Change) {
	sum := c.host(before.Item.Host)
	switch {
	case before.Claim == ClaimChanged && said == revisit.Changed:
		sum.Right++
	case before.Claim == ClaimChanged && said == revisit.Unchanged:
		sum.Wrong++
	case before.Claim == ClaimSame && said == revisit.Changed && at.Sub(before.Claimed) <= at.Sub(before.Visited)/10:
		sum.Missed++
	}
}
