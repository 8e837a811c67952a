package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// storedKey is a key of a server.
type storedKey struct {
	value string
	stays time.Duration // 0 means that it does not expire
}

// keys returns everything that the server has.
func (c placed) keys() map[string]storedKey {
	ctx, admin, all := c.Context(), c.queue.Client(), make(map[string]storedKey)
	for _, key := range admin.Keys(ctx, "*").Val() {
		all[key] = storedKey{admin.Dump(ctx, key).Val(), max(admin.PTTL(ctx, key).Val(), 0)}
	}
	return all
}

// rollBack kills the server, which comes back with an earlier state.
func (c placed) rollBack(keys map[string]storedKey) {
	c.Helper()
	if err := errors.Join(c.queue.Kill(), c.queue.Restart()); err != nil {
		c.Fatal(err)
	}
	_, err := c.queue.Client().Pipelined(c.Context(), func(pipe redis.Pipeliner) error {
		for key, stored := range keys {
			pipe.RestoreReplace(c.Context(), key, stored.stays, stored.value)
		}
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
}

// TestRolledBack: Redis loses what `crawler drop`, `retry` and `pause` have done, after they were answered. The audit stays
// clean, a policy in Postgres stays in force, and the repeated command finishes.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(c placed) {
		if c.queue == nil {
			return
		}
		const urls = 40
		var seeds []string
		for n := range urls {
			seeds = append(seeds, fmt.Sprintf("http://a.test/%d", n), fmt.Sprintf("http://b.test/%d", n))
		}
		c.must("seed", seeds...)

		type state struct {
			Stats struct {
				Queued, Leased, Failed uint64
				Outcomes               map[string]uint64
			}
			Drops, Pauses []string
		}
		status := func() (st state) {
			c.Helper()
			// Postgres knows how exact URLs ended whose end Redis has lost, until they end again.
			if out, err := c.do("status", "--audit"); err != nil && !(c.postgres && strings.HasSuffix(out, "do not balance: exact\n")) {
				c.Fatalf("audit: %v: %s", err, out)
			}
			if out := c.must("status", "--json"); json.Unmarshal([]byte(out), &st) != nil {
				c.Fatalf("status prints %s", out)
			}
			return st
		}
		// lost runs a command, which then is lost, and returns the state before and after the loss.
		lost := func(command string, args ...string) (before, after state) {
			c.Helper()
			keys := c.keys()
			before = status()
			c.must(command, args...)
			if done := status(); fmt.Sprint(done) == fmt.Sprint(before) {
				c.Errorf("%s changes nothing: %+v", command, done)
			}
			c.rollBack(keys)
			after = status()
			if fmt.Sprint(after.Stats) != fmt.Sprint(before.Stats) {
				c.Errorf("after the loss of %s the books are %+v, want %+v", command, after.Stats, before.Stats)
			}
			return before, after
		}
		inForce := func(command string, rules, before, after []string) {
			c.Helper()
			if !c.postgres {
				after, rules = before, before
			}
			if !slices.Equal(after, rules) {
				c.Errorf("after the loss of %s the rules are %q, want %q", command, after, rules)
			}
		}
		// repeat repeats a command until its effect is complete: no host is leased for a while after a restart.
		repeat := func(done func(state) bool, command string, args ...string) {
			c.Helper()
			for begun := time.Now(); ; time.Sleep(time.Second) {
				out := c.must(command, args...)
				if st := status(); done(st) {
					return
				} else if time.Since(begun) > 3*time.Minute {
					c.Fatalf("the repeated %s prints %q and leaves %+v", command, out, st)
				}
			}
		}

		drop := []string{"host=a.test"}
		before, after := lost("drop", "--host", "a.test")
		inForce("drop", drop, before.Drops, after.Drops)
		if c.postgres {
			if out, _ := c.do("seed", "http://a.test/new"); !strings.Contains(out, "1 refused") {
				c.Errorf("a seed that the lost rule matches: %s", out)
			}
		}
		repeat(func(st state) bool {
			return st.Stats.Outcomes["dropped"] == urls && st.Stats.Leased == 0 && slices.Equal(st.Drops, drop)
		}, "drop", "--host", "a.test")

		before, after = lost("retry", "--outcome", "dropped")
		inForce("retry", nil, before.Drops, after.Drops)
		repeat(func(st state) bool {
			return st.Stats.Queued >= 2*urls && st.Stats.Failed == before.Stats.Failed-urls && len(st.Drops) == 0
		}, "retry", "--outcome", "dropped")

		pause := []string{"host=b.test"}
		before, after = lost("pause", "--host", "b.test")
		inForce("pause", pause, before.Pauses, after.Pauses)
		repeat(func(st state) bool { return slices.Equal(st.Pauses, pause) }, "pause", "--host", "b.test")
		c.must("resume", "--host", "b.test")
		if st := status(); len(st.Pauses) != 0 {
			c.Errorf("after the resume: %+v", st)
		}
	})
}
