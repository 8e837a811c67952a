package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestDropKilled kills `crawler drop`, `retry` and `pause` at each of their steps. The repeated commands finish what was
// begun, and the audit is clean.
func TestDropKilled(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(c placed) {
		points := []string{"policy", "policy stored", "drop leased", "drop completed"}
		if c.queue != nil {
			points = append(points, "offered", "recorded", "completed")
		}
		var st struct {
			Stats struct {
				Added, Queued, Leased, Failed uint64
				Outcomes                      map[string]uint64
			}
			Drops, Pauses []string
		}
		status := func() {
			c.Helper()
			st.Stats.Outcomes, st.Drops, st.Pauses = nil, nil, nil
			if out := c.must("status", "--json"); json.Unmarshal([]byte(out), &st) != nil {
				c.Fatalf("status prints %s", out)
			}
		}
		var seeds []string
		for i := range points {
			for n := range 40 {
				seeds = append(seeds, fmt.Sprintf("http://h%d.test/%d", i, n))
			}
		}
		c.must("seed", seeds...)
		for i, point := range points {
			c.killed(point, "drop", "--host", fmt.Sprintf("h%d.test", i))
		}
		// The leases of killed commands in Redis expire after 30 s.
		total := uint64(40 * len(points))
		for begun := time.Now(); ; time.Sleep(time.Second) {
			for i := range points {
				c.must("drop", "--host", fmt.Sprintf("h%d.test", i))
			}
			if status(); st.Stats.Outcomes["dropped"] >= total {
				break
			}
			if time.Since(begun) > 2*time.Minute {
				c.Fatalf("the repeated commands dropped %d of %d URLs", st.Stats.Outcomes["dropped"], total)
			}
		}
		c.must("status", "--audit")
		if st.Stats.Outcomes["dropped"] != total || st.Stats.Failed < total || st.Stats.Leased != 0 || len(st.Drops) != len(points) {
			c.Errorf("after the kills: %+v", st)
		}
		for _, point := range []string{"policy", "policy stored", "requeued"} {
			c.killed(point, "retry", "--outcome", "dropped")
		}
		c.must("retry", "--outcome", "dropped")
		c.must("status", "--audit")
		if status(); st.Stats.Queued < total || len(st.Drops) != 0 {
			c.Errorf("after the retry: %+v", st)
		}
		for _, point := range []string{"policy", "policy stored"} {
			c.killed(point, "pause", "--host", "h0.test")
		}
		c.must("pause", "--host", "h0.test")
		c.killed("policy", "resume", "--host", "h0.test")
		if status(); len(st.Pauses) != 1 {
			c.Errorf("after a killed resume: %+v", st)
		}
		c.must("resume", "--host", "h0.test")
		if status(); len(st.Pauses) != 0 {
			c.Errorf("after the resume: %+v", st)
		}
	})
}
