package redisstore

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestScriptsLookAgain: the data that a caller has read may have changed when its script
// runs. Each script checks the data again, and does nothing if they have changed.
func TestScriptsLookAgain(t *testing.T) {
	for name, prepare := range map[string]func(*scriptBench) *call{
		"lease of a host that is not due": func(b *scriptBench) *call {
			b.add(0, 5, 0)
			b.must(b.completeCall(b.lend(), 1, "1"), "complete")
			return b.leaseCall(frontier.LeaseID{9})
		},
		"lease of a host that another worker has": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			b.lend()
			return b.leaseCall(frontier.LeaseID{9})
		},
		"lease of a host with nothing to do": func(b *scriptBench) *call {
			b.add(0, 5, time.Minute)
			return b.leaseCall(frontier.LeaseID{9})
		},
		"extend of a lease that has expired": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			id := b.lend()
			b.clock.advance(10 * time.Second)
			return b.call(extendScript, b.siteKeys(), id[:], 10_000, 11, 20)
		},
		"complete under a lease that has expired": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			id := b.lend()
			b.clock.advance(10 * time.Second)
			return b.completeCall(id, 1, "1")
		},
		"complete under the id of no lease": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			b.lend()
			return b.completeCall(frontier.LeaseID{9}, 1, "1")
		},
		"expire of a lease that was extended": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			id := b.lend()
			b.clock.advance(9 * time.Second)
			b.must(b.call(extendScript, b.siteKeys(), id[:], 10_000, 11, 10), "extend")
			b.clock.advance(9 * time.Second)
			return b.call(expireScript, nil, 1000, 20)
		},
		"expire of a lease that has expired before": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			b.lend()
			b.clock.advance(10 * time.Second)
			b.must(b.call(expireScript, nil, 1000, 20), "expire")
			return b.call(expireScript, nil, 1000, 20)
		},
		"ready before the delay is over": func(b *scriptBench) *call {
			b.add(0, 5, time.Minute)
			b.clock.advance(time.Minute - time.Millisecond)
			return b.readyCall()
		},
		"ready twice": func(b *scriptBench) *call {
			b.add(0, 5, time.Minute)
			b.clock.advance(time.Minute)
			c := b.readyCall()
			b.must(c, "ready")
			return c
		},
		"retry of items that were retried": func(b *scriptBench) *call {
			b.add(0, 5, 0)
			b.must(b.completeCall(b.lend(), 1, "1"), "complete")
			c := b.retryCall()
			b.must(c, "retry")
			return c
		},
		"retry of an item that is not the first any more": func(b *scriptBench) *call {
			b.add(0, 20, 0)
			id := b.lend()
			b.must(b.completeCall(id, 1, ""), "complete")
			c := b.retryCall()
			b.must(c, "retry")
			b.must(b.completeCall(id, 5, ""), "complete")
			return c
		},
		"hold in an epoch that is known": func(b *scriptBench) *call {
			p := b.partition(faultHost)
			return &call{part: p, script: holdScript, keys: []string{p.meta}, args: []any{10_000}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newScriptBench(t)
			b.wantNothing(prepare(b))
		})
	}
}

// wantNothing checks that a call changes nothing, and that its reply says so.
func (b *scriptBench) wantNothing(c *call) {
	b.Helper()
	before := b.contents()
	c.reply = nil
	if b.runAll(b.Context(), []*call{c}); c.err != nil {
		b.Fatal(c.err)
	}
	if n := integer(at(list(c.reply), 0)) + integer(c.reply); n > 0 {
		b.Errorf("%s replied %v, want a reply that nothing was done", c.script.name, c.reply)
	}
	if diff := contentsDiff(b.contents(), before); diff != "" {
		b.Errorf("%s has changed the contents: %s", c.script.name, diff)
	}
}

// TestScriptsLookAgainBesideExactSet does the same as TestScriptsLookAgain for changes that
// scripts make only if there is an exact set.
func TestScriptsLookAgainBesideExactSet(t *testing.T) {
	for name, prepare := range map[string]func(*scriptBench) *call{
		"retry of an item that waits again": func(b *scriptBench) *call {
			b.add(0, 4, 0)
			b.must(b.completeCall(b.lend(), 1, "1"), "complete")
			c := b.retryCall()
			b.renew()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newScriptBench(t, exactConfig)
			b.add(4, 20, 0)
			b.wantNothing(prepare(b))
		})
	}
}
