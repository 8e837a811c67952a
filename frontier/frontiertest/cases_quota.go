package frontiertest

import (
	"fmt"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/frontier"
)

var quotaCases = []testCase{
	{Name: "ClaimGivesPlacesUpToTheMost", Check: claimGivesPlacesUpToTheMost},
	{Name: "ClaimDecidesManyAtOnce", Check: claimDecidesManyAtOnce},
	{Name: "ClaimersNeverPassTheMost", Check: claimersNeverPassTheMost},
	{Name: "ReopenKeepsPlaces", Check: reopenKeepsPlaces},
}

// claim checks what a key that asks for a place in group is told.
func (d *driver) claim(group, key string, most uint64, want bool) {
	has, err := d.claimOne(group, key, most)
	d.Must(err, "Claim")
	if has != want {
		d.Failf("Claim(%q, %q, %d) = %t, want %t", group, key, most, has, want)
	}
}

// claimOne claims one place.
func (d *driver) claimOne(group, key string, most uint64) (bool, error) {
	has, err := d.Claim(d.Ctx, []frontier.QuotaKey{{Group: group, Key: key}}, most)
	if err != nil {
		return false, err
	}
	return has[0], nil
}

// claimed checks whether key has a place in group, and how many have.
func (d *driver) claimed(group, key string, want bool, wantTaken uint64) {
	has, taken, err := d.Claimed(d.Ctx, group, key)
	d.Must(err, "Claimed")
	if has != want || taken != wantTaken {
		d.Failf("Claimed(%q, %q) = %t, %d, want %t, %d", group, key, has, taken, want, wantTaken)
	}
}

func claimGivesPlacesUpToTheMost(open opener) {
	c := open(Options{})
	c.claimed("a.test", "www.a.test", false, 0)
	for range 2 { // a place is given once
		c.claim("a.test", "www.a.test", 2, true)
		c.claim("a.test", "b.a.test", 2, true)
		c.claim("a.test", "c.a.test", 2, false)
		c.claimed("a.test", "www.a.test", true, 2)
		c.claimed("a.test", "c.a.test", false, 2)
	}
	c.claim("b.test", "c.a.test", 2, true) // another group
	c.claim("a.test", "c.a.test", 3, true) // a larger most makes room
	c.claim("a.test", "www.a.test", 0, true)
	c.claim("a.test", "d.a.test", 0, false)
	c.claimed("a.test", "d.a.test", false, 3)
	c.claimed("b.test", "c.a.test", true, 1)
}

// claimDecidesManyAtOnce claims more keys than a store asks for in one step, of
// two groups, some of them twice or known before.
func claimDecidesManyAtOnce(open opener) {
	const keys, most = 700, 500
	c := open(Options{})
	c.claim("a.test", "0", most, true)
	var all []frontier.QuotaKey
	for i := range keys {
		all = append(all, frontier.QuotaKey{Group: "a.test", Key: fmt.Sprint(i)},
			frontier.QuotaKey{Group: "b.test", Key: fmt.Sprint(i / 2)})
	}
	for range 2 {
		has, err := c.Claim(c.Ctx, all, most)
		c.Must(err, "Claim")
		c.want("answers", uint64(len(has)), uint64(len(all)))
		for i, k := range all {
			want := k.Group == "b.test" || i/2 < most
			if i < len(has) && has[i] != want {
				c.Failf("Claim of %v, the %d. of many, is %t, want %t", k, i, has[i], want)
			}
		}
		c.claimed("a.test", "499", true, most)
		c.claimed("a.test", "500", false, most)
		c.claimed("b.test", "349", true, keys/2)
	}
	none, err := c.Claim(c.Ctx, nil, most)
	c.Must(err, "Claim of nothing")
	c.want("answers to nothing", uint64(len(none)), 0)
}

func claimersNeverPassTheMost(open opener) {
	const racers, keys, most = 16, 40, 25
	c := open(Options{})
	var has [keys]atomic.Int32
	c.Race(racers, func(racer int) error {
		for i := range keys {
			i := (i + 7*racer) % keys // so that the last places are fought for
			got, err := c.claimOne("a.test", fmt.Sprint(i), most)
			if err != nil {
				return err
			}
			if got {
				has[i].Add(1)
			}
		}
		return nil
	})
	places := uint64(0)
	for i := range keys {
		got, err := c.claimOne("a.test", fmt.Sprint(i), most)
		c.Must(err, "Claim")
		if got {
			places++
		}
		if n := has[i].Load(); n > 0 && !got {
			c.Failf("key %d was told %d times that it has a place, and has none", i, n)
		}
	}
	c.want("places", places, most)
}

func reopenKeepsPlaces(open opener) {
	c := open(Options{})
	crawl, ok := c.Crawl.(Reopener)
	if !ok {
		return // nothing to hold it to
	}
	c.claim("a.test", "www.a.test", 2, true)
	c.claim("a.test", "b.a.test", 2, true)
	for _, again := range []func(Reopener) (Crawl, error){Reopener.Reopen, Reopener.Crash} {
		reopened, err := again(crawl)
		c.Must(err, "open again")
		c.Crawl, crawl = reopened, reopened.(Reopener)
		c.claimed("a.test", "b.a.test", true, 2)
		c.claim("a.test", "www.a.test", 2, true)
		c.claim("a.test", "c.a.test", 2, false)
	}
}
