package frontiertest

import (
	"fmt"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/frontier"
)

var quotaCases = []testCase{
	{"ReserveStopsAtTheLimit", Options{}, func(c *driver) {
		c.reserved("a.test", "www.a.test", false, 0)
		for range 2 { // a key is added once
			c.reserve("a.test", "www.a.test", 2, true)
			c.reserve("a.test", "b.a.test", 2, true)
			c.reserve("a.test", "c.a.test", 2, false)
			c.reserved("a.test", "www.a.test", true, 2)
			c.reserved("a.test", "c.a.test", false, 2)
		}
		c.reserve("b.test", "c.a.test", 2, true) // another group
		c.reserve("a.test", "c.a.test", 3, true) // a higher limit
		c.reserve("a.test", "www.a.test", 0, true)
		c.reserve("a.test", "d.a.test", 0, false)
		c.reserved("a.test", "d.a.test", false, 3)
		c.reserved("b.test", "c.a.test", true, 1)
	}},
	// This case adds more keys than a store sends in one step, to two
	// groups. Some keys come twice or are members already.
	{"ReserveDecidesManyAtOnce", Options{}, func(c *driver) {
		const keys, most = 700, 500
		c.reserve("a.test", "0", most, true)
		var all []frontier.QuotaKey
		for i := range keys {
			all = append(all, frontier.QuotaKey{Group: "a.test", Key: fmt.Sprint(i)},
				frontier.QuotaKey{Group: "b.test", Key: fmt.Sprint(i / 2)})
		}
		for range 2 {
			has, err := c.Reserve(c.Ctx, all, most)
			c.Must(err, "Reserve")
			c.want("number of answers of Reserve", uint64(len(has)), uint64(len(all)))
			for i, k := range all {
				want := k.Group == "b.test" || i/2 < most
				c.Require(i >= len(has) || has[i] == want, "Reserve of many keys: %v at index %d = %t, want %t", k, i, has[i], want)
			}
			c.reserved("a.test", "499", true, most)
			c.reserved("a.test", "500", false, most)
			c.reserved("b.test", "349", true, keys/2)
		}
		none, err := c.Reserve(c.Ctx, nil, most)
		c.Require(err == nil && len(none) == 0, "Reserve of no keys = %v, %v, want no answers", none, err)
	}},
	{"RacersNeverPassTheLimit", Options{}, func(c *driver) {
		const racers, keys, most = 16, 40, 25
		var has [keys]atomic.Int32
		c.Race(racers, func(racer int) error {
			for i := range keys {
				i := (i + 7*racer) % keys // so that the racers compete for the last keys
				got, err := c.reserveOne("a.test", fmt.Sprint(i), most)
				if err != nil {
					return err
				}
				if got {
					has[i].Add(1)
				}
			}
			return nil
		})
		for i := range keys { // a key is in the group exactly if Reserve returned true for it at least once
			c.reserved("a.test", fmt.Sprint(i), has[i].Load() > 0, most)
		}
	}},
	{"ReopenKeepsGroups", Options{}, func(c *driver) {
		c.reserve("a.test", "www.a.test", 2, true)
		c.reserve("a.test", "b.a.test", 2, true)
		for _, again := range []func(Reopener) (Crawl, error){Reopener.Reopen, Reopener.Crash} {
			if !c.restart(again) {
				return
			}
			c.reserved("a.test", "b.a.test", true, 2)
			c.reserve("a.test", "www.a.test", 2, true)
			c.reserve("a.test", "c.a.test", 2, false)
		}
	}},
}

func (d *driver) reserve(group, key string, most uint64, want bool) {
	has, err := d.reserveOne(group, key, most)
	d.Must(err, "Reserve")
	d.Require(has == want, "Reserve(%q, %q, %d) = %t, want %t", group, key, most, has, want)
}

func (d *driver) reserveOne(group, key string, most uint64) (bool, error) {
	has, err := d.Reserve(d.Ctx, []frontier.QuotaKey{{Group: group, Key: key}}, most)
	if err != nil {
		return false, err
	}
	return has[0], nil
}

func (d *driver) reserved(group, key string, want bool, wantSize uint64) {
	has, size, err := d.Reserved(d.Ctx, group, key)
	d.Must(err, "Reserved")
	d.Require(has == want && size == wantSize, "Reserved(%q, %q) = %t, %d, want %t, %d", group, key, has, size, want, wantSize)
}
