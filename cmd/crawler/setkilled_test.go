package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestSetKilled kills `crawler set` before and after each of its effects. The repeated command finishes the change, which
// is then the newest version, has one number, and holds for the next run. With Postgres, the versions survive a Redis that
// loses everything.
func TestSetKilled(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(c placed) {
		delays := []string{"2s", "3s"}
		for i, point := range []string{"policy", "policy stored"} {
			c.killed(point, "set", "delay="+delays[i], "--why", "killed")
			c.must("set", "delay="+delays[i], "--why", "repeated")
		}
		check := func(when string) {
			c.Helper()
			var versions []struct {
				Number  int
				Changes []struct{ Name, To string }
			}
			out := c.must("config", "--history", "--json")
			for line := range strings.Lines(out) {
				versions = append(versions, struct {
					Number  int
					Changes []struct{ Name, To string }
				}{})
				if err := json.Unmarshal([]byte(line), &versions[len(versions)-1]); err != nil {
					c.Fatalf("%v: %s", err, out)
				}
			}
			if len(versions) != 2 || versions[0].Number != 1 || versions[1].Number != 2 || versions[1].Changes[0].To != "3s" {
				c.Errorf("%s the history is %+v, want the versions 1 and 2", when, versions)
			}
			if out := c.must("config"); !regexp.MustCompile(`(?m)^delay +3s `).MatchString(out) {
				c.Errorf("%s the crawl has the settings %s, want a delay of 3s", when, out)
			}
			c.crawl("--delay", "3s") // an error if the policy has another delay
			c.must("status", "--audit")
		}
		check("after the kills")
		if !c.postgres {
			return
		}
		if err := c.queue.Client().FlushAll(c.Context()).Err(); err != nil {
			c.Fatal(err)
		}
		c.must("rebuild")
		check("after the rebuild")
	})
}
