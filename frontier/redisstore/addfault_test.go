package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// faultyAdd is one call of add.lua with items of two hosts of one partition. Some items are new,
// one of them is delayed, and some are exact. The filter claims to contain three exact items, and two items that are readmitted, of
// which one has failed.
type faultyAdd struct {
	*scriptBench
	items         []frontier.Offer
	decided       []exact.Decision  // about items, if there is an exact set
	base          map[string]dumped // the result of dump before the call
	before, after map[string]string // contents before and after the call
	log           []string
}

// newFaultyAdd finds items whose bits are in different blocks, so that they fit into one
// call of the script.
func newFaultyAdd(t *testing.T, cfg func(*servers.RedisServer) Config) *faultyAdd {
	b := &faultyAdd{scriptBench: newScriptBench(t, cfg)}
	other := ""
	for n := 0; other == "" || b.partition(other) != b.partition(faultHost); n++ {
		other = fmt.Sprintf("h%d.test", n)
	}
	empty := b.dump()
	for n := 0; ; n += 20 {
		known := testPages(other, n, n+3)
		mustAdd(t, b.Store, known)
		back := testPages(other, n+12, n+14)
		b.letBack(back)
		b.items = slices.Concat(testPages(faultHost, n+3, n+8), testPages(other, n+8, n+12), known, back)
		b.items[1].Priority, b.items[2].Delay = frontier.PrioritySeed, time.Minute
		b.decided = make([]exact.Decision, len(b.items))
		for i, kind := range map[int]exact.Kind{4: exact.Again, 6: exact.New, 9: exact.Promoted, 10: exact.New, 11: exact.Again} {
			b.items[i].Class = frontier.Exact
			if b.cfg.Exact != nil {
				b.decided[i].Kind = kind
			}
		}
		b.base, b.before = b.dump(), b.contents()
		b.planAdd(0)
		b.addItems()
		b.planAdd(-1)
		b.log = b.admin.LRange(t.Context(), "log:add", 0, -1).Val()
		b.admin.Del(t.Context(), "log:add")
		b.after = b.contents()
		calls := 0
		for _, line := range b.log {
			if strings.HasPrefix(line, "HMGET ") && strings.HasSuffix(line, "f") {
				calls++
			}
		}
		if calls == 1 {
			return b
		}
		b.restore(empty)
	}
}

// letBack makes items known and readmits them. The first one has failed.
func (b *faultyAdd) letBack(items []frontier.Offer) {
	b.Helper()
	p := b.partition(items[0].Host)
	var seen []SeenURL
	var args []any
	for i := range items {
		seen = append(seen, SeenURL{Host: items[i].Host, URL: items[i].URL})
		item := items[i].Item(b.hasher.Fingerprint(items[i].URL))
		value := ""
		if i == 0 {
			value = string(appendEntry(appendTime(appendFailed(nil, frontier.Network, 0), b.clock.now()), &item))
			b.admin.RPush(b.Context(), p.failed(item.Host), value)
			b.admin.SAdd(b.Context(), p.failedHosts, item.Host)
			b.admin.HIncrBy(b.Context(), p.meta, fieldFailed, 1)
		}
		args = append(args, item.Fingerprint[:], value)
	}
	if _, err := b.MarkSeen(b.Context(), seen); err != nil {
		b.Fatal(err)
	}
	later := b.admin.HGet(b.Context(), p.meta, fieldLater).Val()
	c := &call{part: p, script: readmitScript, keys: []string{p.meta, p.readmitted, p.exact}, args: append([]any{cmp.Or(later, "0"), "", ""}, args...)}
	if b.runAll(b.Context(), []*call{c}); c.err != nil || text(c.reply) != "rr" {
		b.Fatalf("readmit.lua answers %v, %v", c.reply, c.err)
	}
	b.known.Store(nil)
}

func (b *faultyAdd) addItems() {
	b.Helper()
	if _, err := b.AddDecided(b.Context(), b.items, b.decided); err != nil {
		b.Fatal(err)
	}
}

// planAdd makes the n-th command of add.lua fail. If n is 0, no command fails. If n is
// negative, no command fails and none is logged.
func (b *faultyAdd) planAdd(n int) { b.plan(&call{script: addScript}, n) }

// queued reports whether an item has an entry, ready or delayed.
func (b *faultyAdd) queued(it frontier.Offer) bool {
	p := b.partition(it.Host)
	for priority := range frontier.Priorities {
		for _, entry := range b.admin.LRange(b.Context(), p.queue(priority, it.Host), 0, -1).Val() {
			if got, err := decodeEntry(entry, it.Host, b.hasher); err == nil && got.URL == it.URL {
				return true
			}
		}
	}
	return slices.ContainsFunc(b.admin.ZRange(b.Context(), p.delayed, 0, -1).Val(), func(member string) bool {
		_, path, _ := strings.Cut(it.URL, it.Host)
		return strings.HasSuffix(member, path)
	})
}

// TestAddFaults makes each command of add.lua fail once. A script that fails before its
// first write changes nothing, and a repeat does everything. If it fails later, it has
// queued each URL that it added to the filter, and a repeat queues the other URLs.
func TestAddFaults(t *testing.T) { testAddFaults(t, config) }

// TestAddFaultsBesideExactSet does the same as TestAddFaults. Its exact items have a decision of
// an exact set.
func TestAddFaultsBesideExactSet(t *testing.T) { testAddFaults(t, exactConfig) }

func testAddFaults(t *testing.T, cfg func(*servers.RedisServer) Config) {
	b := newFaultyAdd(t, cfg)
	first := slices.IndexFunc(b.log, func(line string) bool {
		command, _, _ := strings.Cut(line, " ")
		return !slices.Contains(readCommands, command)
	})
	for n, line := range b.log {
		b.restore(b.base)
		b.known.Store(nil) // items are readmitted again
		b.planAdd(n + 1)
		if _, err := b.AddDecided(t.Context(), b.items, b.decided); err == nil || !strings.Contains(err.Error(), "planned fault") {
			t.Fatalf("command %d, %s, was made to fail, but Add = %v", n+1, line, err)
		}
		b.planAdd(-1)
		if diff := contentsDiff(b.contents(), b.before); n <= first && diff != "" {
			t.Errorf("after a fault in command %d, %s, the contents have changed: %s", n+1, line, diff)
		}
		b.addItems()
		for _, it := range b.items {
			if !b.queued(it) {
				t.Errorf("after a fault in command %d, %s, %q is known and not queued", n+1, line, it.URL)
			}
		}
		if diff := contentsDiff(b.contents(), b.after); n <= first && diff != "" {
			t.Errorf("after a fault in command %d, %s, and a repeat, the contents are wrong: %s", n+1, line, diff)
		}
	}
}
