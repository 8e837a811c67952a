package redisstore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// faulty is inserted before a script's text. The key plan:NAME has the number of the
// script's command that fails, counted from 1. If it is 0, no command fails, and each
// command and its key are appended to log:NAME.
const faulty = `
local redis = (function(real)
  local plan, n = tonumber(real.call('GET', 'plan:NAME') or nil), 0
  return {call = function(command, key, ...)
    n = n + 1
    if n == plan then error('planned fault') end
    if plan == 0 then real.call('RPUSH', 'log:NAME', command .. ' ' .. key) end
    if key then return real.call(command, key, ...) end
    return real.call(command)
  end, sha1hex = real.sha1hex}
end)(redis)
`

// scenario is one run of a script that changes something.
type scenario struct {
	name    string
	prepare func(*scriptBench) *call // makes the state, and returns the call of the script
	items   int                      // number of items; they are numbered from 0
	done    []int                    // items that can be removed; the others must be stored, whichever command fails
}

// scriptBench runs scripts on a server that only the test uses. The test sets the clock.
type scriptBench struct {
	*testing.T
	*Store
	admin *redis.Client
	clock *testClock
}

func newScriptBench(t *testing.T, configs ...func(*servers.RedisServer) Config) *scriptBench {
	b := &scriptBench{T: t, clock: newTestClock()}
	server := servers.Redis(t, servers.RedisOptions{})
	b.admin = server.Client()
	cfg := append(configs, config)[0](server)
	cfg.Now = b.clock.now
	cfg.Policy = every(time.Second)
	cfg.edit = func(script, text string) string { return strings.ReplaceAll(faulty, "NAME", script) + text }
	b.Store = openStore(t, cfg)
	return b
}

const faultHost = "a.test"

func (b *scriptBench) call(sc *script, extraKeys []string, args ...any) *call {
	p := b.partition(faultHost)
	return &call{part: p, script: sc, keys: append(p.hostKeys(faultHost), extraKeys...), args: append([]any{faultHost}, args...)}
}

// add queues the items with the numbers first to end-1, of all priorities.
func (b *scriptBench) add(first, end int, delay time.Duration) {
	b.Helper()
	items := testPages(faultHost, first, end)
	for i := range items {
		items[i].Priority = frontier.Priority(i % frontier.Priorities)
		items[i].Delay = delay
	}
	if b.cfg.Exact != nil {
		mustAddDecided(b, b.Store, exact.New, 0, items)
		return
	}
	mustAdd(b, b.Store, items)
}

// lend leases the host with up to ten items, of which two can be in flight.
func (b *scriptBench) lend() frontier.LeaseID {
	b.Helper()
	id := frontier.LeaseID{1, 2, 3}
	b.must(b.leaseCall(id), "lease")
	return id
}

func (b *scriptBench) leaseCall(id frontier.LeaseID) *call {
	return b.call(leaseScript, b.siteKeys(), id[:], 10_000, 1000, 2, 10, 1, "", 4)
}

func (b *scriptBench) must(c *call, what string) {
	b.Helper()
	if b.runAll(b.Context(), []*call{c}); c.err != nil {
		b.Fatalf("%s: %v", what, c.err)
	}
	if n := integer(at(list(c.reply), 0)) + integer(c.reply); n <= 0 {
		b.Fatalf("%s replied %v, want a reply that something was done", what, c.reply)
	}
}

// completeCall returns a call of complete.lua with one completion of each kind.
func (b *scriptBench) completeCall(id frontier.LeaseID, first int, end string) *call {
	args := []any{id[:], 500, 2000, end, "1", "blob", 9, "",
		first, "done", "", b.exactArg(first), 2, "o:ok", 1, "pages", 1}
	args = append(args, first+1, "failed", appendFailed(nil, frontier.Network, 0), b.exactArg(first+1), 1, "o:network", 1)
	args = append(args, first+2, "retry", 60_000, "", 0, first+3, "back", "", "", 1, "found", 7)
	return b.call(completeScript, b.completeKeys(), args...)
}

func (b *scriptBench) completeKeys() []string {
	p := b.partition(faultHost)
	return []string{p.failed(faultHost), p.failedHosts, p.counts(b.hasher.Fingerprint(faultHost)), b.siteKeys()[0], p.exact}
}

// siteKeys are the keys of the site of the host.
func (b *scriptBench) siteKeys() []string {
	p := b.partition(faultHost)
	return []string{p.places(faultHost), p.siteQueue(faultHost)}
}

// exactArg returns the argument of complete.lua that removes a leased item from
// partition.exact.
func (b *scriptBench) exactArg(number int) any {
	b.Helper()
	entry := b.admin.HGet(b.Context(), b.partition(faultHost).active(faultHost), strconv.Itoa(number)).Val()
	item, err := decodeEntry(entry, faultHost, b.hasher)
	if err != nil {
		b.Fatal(err)
	}
	return b.exactPrint(&item)
}

// renew queues the first failed item again. The offer has the decision Again.
func (b *scriptBench) renew() {
	b.Helper()
	e, err := b.failedEntry(b.admin.LIndex(b.Context(), b.partition(faultHost).failed(faultHost), 0).Val(), faultHost)
	if err != nil {
		b.Fatal(err)
	}
	mustAddDecided(b, b.Store, exact.Again, e.item.Round+1, []frontier.Offer{e.item.Offer()})
}

func (b *scriptBench) readyCall() *call {
	members := b.admin.ZRange(b.Context(), b.partition(faultHost).delayed, 0, -1).Val()
	return b.call(readyScript, nil, asArgs(members)...)
}

func (b *scriptBench) retryCall() *call {
	p := b.partition(faultHost)
	fields := b.admin.HMGet(b.Context(), p.meta, fieldTop, fieldLater).Val()
	used := roundsOf(fields)
	args := newRetryArgs(faultHost, used, 0)
	for _, value := range b.admin.LRange(b.Context(), p.failed(faultHost), 0, -1).Val() {
		e, err := b.failedEntry(value, faultHost)
		if err != nil {
			b.Fatal(err)
		}
		args = b.retryArgs(args, value, b.nextRound(e.item, used), false)
	}
	return b.call(retryScript, []string{p.failed(faultHost), p.failedHosts, p.exact}, args[1:]...)
}

// faultScenarios are runs of scripts. Of fifteen items, ten are leased, in this order:
// 0 3 6 9 12 1 4 7 10 13.
var faultScenarios = []scenario{
	{"lease", func(b *scriptBench) *call {
		b.add(0, 15, 0)
		return b.leaseCall(frontier.LeaseID{9})
	}, 15, nil},
	{"extend", func(b *scriptBench) *call {
		b.add(0, 25, 0)
		id := b.lend()
		b.clock.advance(3 * time.Second)
		return b.call(extendScript, b.siteKeys(), id[:], 10_000, 9, 20)
	}, 25, nil},
	{"complete", func(b *scriptBench) *call {
		b.add(0, 15, 0)
		return b.completeCall(b.lend(), 1, "")
	}, 15, []int{0}},
	{"complete the last item", func(b *scriptBench) *call {
		b.add(0, 1, 0)
		id := b.lend()
		return b.call(completeScript, b.completeKeys(), id[:], 500, 2000, "", "", "", 9, "", 1, "done", "", b.exactArg(1), 0)
	}, 1, []int{0}},
	{"complete and end", func(b *scriptBench) *call {
		b.add(0, 15, 0)
		id := b.lend()
		b.must(b.completeCall(id, 1, ""), "complete")
		return b.completeCall(id, 5, "1")
	}, 15, []int{0, 12}},
	{"complete everything and end", func(b *scriptBench) *call {
		b.add(0, 1, 0)
		id := b.lend()
		return b.call(completeScript, b.completeKeys(), id[:], 500, 2000, "1", "", "", 9, "", 1, "done", "", b.exactArg(1), 0)
	}, 1, []int{0}},
	{"expire", func(b *scriptBench) *call {
		b.add(0, 15, 0)
		b.must(b.completeCall(b.lend(), 1, ""), "complete")
		b.clock.advance(10 * time.Second)
		return b.call(expireScript, nil, 1000, 20)
	}, 15, []int{0}},
	{"hold", func(b *scriptBench) *call {
		p := b.partition(faultHost)
		b.admin.HSet(b.Context(), p.meta, fieldEpoch, "another")
		return &call{part: p, script: holdScript, keys: []string{p.meta}, args: []any{10_000}}
	}, 0, nil},
	{"ready", func(b *scriptBench) *call {
		b.add(0, 9, time.Minute)
		b.clock.advance(time.Minute)
		return b.readyCall()
	}, 9, nil},
	{"ready while leased", func(b *scriptBench) *call {
		b.add(0, 9, time.Minute)
		b.add(9, 12, 0)
		b.lend()
		b.clock.advance(time.Minute)
		return b.readyCall()
	}, 12, nil},
	{"retry", func(b *scriptBench) *call {
		b.add(0, 4, 0)
		b.must(b.completeCall(b.lend(), 1, "1"), "complete")
		return b.retryCall()
	}, 4, []int{0}},
	{"retry while leased", func(b *scriptBench) *call {
		b.add(0, 8, 0)
		id := b.lend()
		b.must(b.completeCall(id, 1, "1"), "complete")
		b.clock.advance(time.Second)
		id = b.lend()
		b.must(b.completeCall(id, 1, ""), "complete")
		return b.retryCall()
	}, 8, []int{0, 1}},
}

// exactScenarios are runs of scripts with an exact set.
var exactScenarios = []scenario{
	{"retry beside an item that waits", func(b *scriptBench) *call {
		b.add(0, 8, 0)
		b.must(b.completeCall(b.lend(), 1, "1"), "complete")
		b.clock.advance(time.Second)
		b.must(b.completeCall(b.lend(), 1, ""), "complete")
		tried := b.retryCall()
		b.renew()
		return tried
	}, 8, []int{0, 1}},
}

// TestScriptFaults makes each command of each script fail once. A script that fails before
// its first write changes nothing, and a repeat does everything. Before its first write, a
// script reads every key as the type that it will write. So no later command can fail
// because of the type of a key. If a command fails nevertheless, no item is lost, because
// each item is written to its new place before it is removed from the old one.
func TestScriptFaults(t *testing.T) { testScriptFaults(t, faultScenarios, config) }

// TestScriptFaultsBesideExactSet does the same as TestScriptFaults for the structure that only
// a crawl with an exact set has: the set of queued and leased exact items.
func TestScriptFaultsBesideExactSet(t *testing.T) {
	scenarios := exactScenarios
	for _, sc := range faultScenarios {
		if strings.HasPrefix(sc.name, "complete") || strings.HasPrefix(sc.name, "retry") {
			scenarios = append(scenarios, sc)
		}
	}
	testScriptFaults(t, scenarios, exactConfig)
}

func testScriptFaults(t *testing.T, scenarios []scenario, cfg func(*servers.RedisServer) Config) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			b := newScriptBench(t, cfg)
			tried := sc.prepare(b)
			base, before := b.dump(), b.contents()
			after, log := b.logged(tried)
			writes := checkReadFirst(t, log)
			for n := range len(log) {
				b.restore(base)
				b.plan(tried, n+1)
				b.runAll(t.Context(), []*call{tried})
				if tried.err == nil || !strings.Contains(tried.err.Error(), "planned fault") {
					t.Fatalf("command %d, %s, was made to fail, but the error is %v", n+1, log[n], tried.err)
				}
				b.plan(tried, -1)
				if n > writes {
					b.checkKept(n, log, sc)
					continue
				}
				if diff := contentsDiff(b.contents(), before); diff != "" {
					t.Errorf("after a fault in command %d, %s, the contents have changed: %s", n+1, log[n], diff)
				}
				tried.err = nil
				b.must(tried, "a repeat")
				if diff := contentsDiff(b.contents(), after); diff != "" {
					t.Errorf("after a fault in command %d, %s, and a repeat, the contents are wrong: %s", n+1, log[n], diff)
				}
			}
		})
	}
}

// logged runs a call that must change something. It returns the contents
// afterwards and the commands of the script.
func (b *scriptBench) logged(c *call) (map[string]string, []string) {
	b.Helper()
	b.plan(c, 0)
	b.must(c, c.script.name)
	b.plan(c, -1)
	key := "log:" + c.script.name
	log := b.admin.LRange(b.Context(), key, 0, -1).Val()
	b.admin.Del(b.Context(), key)
	return b.contents(), log
}

// plan makes a script's n-th command fail. If n is 0, no command fails. If n is negative,
// no command fails and none is logged.
func (b *scriptBench) plan(c *call, n int) {
	key := "plan:" + c.script.name
	if n < 0 {
		b.admin.Del(b.Context(), key)
		return
	}
	b.admin.Set(b.Context(), key, n, 0)
}

var readCommands = []string{
	"EXISTS", "GETRANGE", "HGET", "HGETALL", "HLEN", "HMGET", "LLEN", "LRANGE", "SCARD", "SISMEMBER", "TIME", "ZCARD", "ZMSCORE", "ZRANGE", "ZSCORE",
}

// checkReadFirst checks that every key that is written is read before the first
// write. It returns the index of the first write.
func checkReadFirst(t *testing.T, log []string) (first int) {
	read := map[string]bool{}
	first = -1
	for i, line := range log {
		command, key, _ := strings.Cut(line, " ")
		switch {
		case slices.Contains(readCommands, command):
			if first < 0 && command != "EXISTS" { // EXISTS does not check the type
				read[key] = true
			}
		case first < 0:
			first = i
			fallthrough
		default:
			if !read[key] {
				t.Errorf("command %d, %s, writes a key that was not read before the first write: %q", i+1, line, log)
			}
		}
	}
	if first < 0 {
		t.Fatalf("the script wrote nothing: %q", log)
	}
	return first
}

// checkKept checks that every item is still stored after a fault in the n-th
// command.
func (b *scriptBench) checkKept(n int, log []string, sc scenario) {
	all := strings.Join(slices.Collect(maps.Values(b.contents())), " ")
	for item := range sc.items {
		if !strings.Contains(all, fmt.Sprintf("/path/of/page/%d?", item)) && !slices.Contains(sc.done, item) {
			b.Errorf("after a fault in command %d, %s, item %d is not stored any more", n+1, log[n], item)
		}
	}
}

// dumped is a key on the server.
type dumped struct {
	value string
	stays time.Duration // 0 means that it does not expire
}

// dump returns everything that the server has, for a later call of restore.
func (b *scriptBench) dump() map[string]dumped {
	all := map[string]dumped{}
	for _, key := range b.admin.Keys(b.Context(), "*").Val() {
		all[key] = dumped{b.admin.Dump(b.Context(), key).Val(), max(b.admin.PTTL(b.Context(), key).Val(), 0)}
	}
	return all
}

// restore replaces everything on the server with the result of dump.
func (b *scriptBench) restore(all map[string]dumped) {
	b.Helper()
	_, err := b.admin.Pipelined(b.Context(), func(pipe redis.Pipeliner) error {
		for _, key := range b.admin.Keys(b.Context(), "*").Val() {
			if _, kept := all[key]; !kept {
				pipe.Del(b.Context(), key)
			}
		}
		for key, value := range all {
			pipe.RestoreReplace(b.Context(), key, value.stays, value.value)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// contents returns everything on the server in a readable form, except what
// changes by itself: heartbeats, and the epoch in which the log was repaired.
func (b *scriptBench) contents() map[string]string {
	ctx, all := b.Context(), map[string]string{}
	for _, key := range b.admin.Keys(ctx, "*").Val() {
		var content any
		if slices.Contains([]string{b.cfg.workersKey(), b.cfg.heardKey(), b.cfg.ackedKey()}, key) {
			continue
		}
		switch kind := b.admin.Type(ctx, key).Val(); kind {
		case "hash":
			fields := b.admin.HGetAll(ctx, key).Val()
			delete(fields, fieldLog)
			content = fields // printed in order
		case "list":
			content = b.admin.LRange(ctx, key, 0, -1).Val()
		case "set":
			content = slices.Sorted(maps.Keys(b.admin.SMembersMap(ctx, key).Val()))
		case "zset":
			content = b.admin.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "string":
			content = b.admin.BitCount(ctx, key, nil).Val()
		default:
			b.Fatalf("key %q has the type %q, which contents cannot read", key, kind)
		}
		all[key] = fmt.Sprintf("%q, expires %t", fmt.Sprint(content), b.admin.PTTL(ctx, key).Val() > 0)
	}
	return all
}

func contentsDiff(got, want map[string]string) string {
	var diff []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			diff = append(diff, strconv.Quote(key)+" is "+got[key]+", want "+want[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			diff = append(diff, strconv.Quote(key)+" is "+got[key]+", want it gone")
		}
	}
	return strings.Join(diff, "\n")
}

func asArgs(keys []string) []any {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	return args
}
