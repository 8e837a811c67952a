package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestDropKilled kills `crawler drop`, `retry` and `pause` at each of their steps. The repeated commands finish what was
// begun, and the audit is clean.
func TestDropKilled(t *testing.T) {
	t.Parallel()
	points := []string{"policy", "policy stored", "drop leased", "drop completed"}
	for name, place := range map[string]struct {
		at     func(t *testing.T) []string
		points []string
	}{
		"dir": {func(t *testing.T) []string {
			return []string{"--dir", filepath.Join(t.TempDir(), "a.crawl")}
		}, points},
		"redis": {func(t *testing.T) []string {
			return []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "n", "--dir", filepath.Join(t.TempDir(), "w")}
		}, append(points, "offered", "recorded", "completed")},
		"postgres": {func(t *testing.T) []string {
			return []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "n", "--dir", filepath.Join(t.TempDir(), "w"),
				"--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN()}
		}, append(points, "offered", "recorded", "completed")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := place.at(t)
			do := func(command string, args ...string) (string, error) {
				out, err := exec.Command("crawler", slices.Concat([]string{command}, at, args)...).CombinedOutput()
				return string(out), err
			}
			must := func(command string, args ...string) string {
				t.Helper()
				out, err := do(command, args...)
				if err != nil {
					t.Fatalf("%s %q: %v: %s", command, args, err, out)
				}
				return out
			}
			killed := func(point, command string, args ...string) {
				t.Helper()
				if out, err := do(command, append(args, "--crash-at", point+":1")...); err == nil {
					t.Fatalf("%s did not reach the crash point %q: %s", command, point, out)
				}
			}
			var st struct {
				Stats struct {
					Added, Queued, Leased, Failed uint64
					Outcomes                      map[string]uint64
				}
				Drops, Pauses []string
			}
			status := func() {
				t.Helper()
				st.Stats.Outcomes, st.Drops, st.Pauses = nil, nil, nil
				out, err := exec.Command("crawler", slices.Concat([]string{"status", "--json"}, at)...).Output()
				if err == nil {
					err = json.Unmarshal(out, &st)
				}
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			must("crawl", "--urls", "1000", "--max-time", "1ms", "http://z.invalid/")
			var seeds []string
			for i := range place.points {
				for n := range 40 {
					seeds = append(seeds, fmt.Sprintf("http://h%d.invalid/%d", i, n))
				}
			}
			must("seed", seeds...)
			for i, point := range place.points {
				killed(point, "drop", "--host", fmt.Sprintf("h%d.invalid", i))
			}
			// The leases of killed commands in Redis expire after 30 s.
			total := uint64(40 * len(place.points))
			for begun := time.Now(); ; time.Sleep(time.Second) {
				for i := range place.points {
					must("drop", "--host", fmt.Sprintf("h%d.invalid", i))
				}
				if status(); st.Stats.Outcomes["dropped"] >= total {
					break
				}
				if time.Since(begun) > 2*time.Minute {
					t.Fatalf("the repeated commands dropped %d of %d URLs", st.Stats.Outcomes["dropped"], total)
				}
			}
			must("status", "--audit")
			if st.Stats.Outcomes["dropped"] != total || st.Stats.Failed < total || st.Stats.Leased != 0 || len(st.Drops) != len(place.points) {
				t.Errorf("after the kills: %+v", st)
			}
			for _, point := range []string{"policy", "policy stored", "requeued"} {
				killed(point, "retry", "--outcome", "dropped")
			}
			must("retry", "--outcome", "dropped")
			must("status", "--audit")
			if status(); st.Stats.Queued < total || len(st.Drops) != 0 {
				t.Errorf("after the retry: %+v", st)
			}
			for _, point := range []string{"policy", "policy stored"} {
				killed(point, "pause", "--host", "h0.invalid")
			}
			must("pause", "--host", "h0.invalid")
			killed("policy", "resume", "--host", "h0.invalid")
			if status(); len(st.Pauses) != 1 {
				t.Errorf("after a killed resume: %+v", st)
			}
			must("resume", "--host", "h0.invalid")
			if status(); len(st.Pauses) != 0 {
				t.Errorf("after the resume: %+v", st)
			}
		})
	}
}
