package proofs

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/servers"
)

// drawPoints returns where workers kill themselves: at each point once at least,
// the first at those on both sides of a completion.
func drawPoints(rng *rand.Rand) []kill {
	most := sized(20, 200) // completions of a worker before it dies
	var points []kill
	for range sized(1, 4) {
		points = append(points,
			kill{point: "recorded", times: 1 + rng.IntN(most)},  // the record is on disk, nothing is completed
			kill{point: "completed", times: 1 + rng.IntN(most)}, // it is, and the worker was not told
			kill{point: "offered", times: 1 + rng.IntN(most)},   // links are queued, the page has no record
			kill{point: "append", times: 1 + rng.IntN(most)},    // half of the records written
			kill{point: "leased", times: 1 + rng.IntN(5)},       // hosts are lent, the worker was not told
		)
	}
	return points
}

// TestSharedKilled: workers of one crawl are killed every two seconds, and at
// both sides of a completion, and replaced. The records of all of them, merged,
// are exactly those of a crawl that was not killed; no host was asked too early;
// and nothing that a worker was told is queued was forgotten.
func TestSharedKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := hardWeb(t, seed)
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 5)), sharedFlags(web, "--partitions", strconv.Itoa(sized(32, 256)))...)
	m.points = drawPoints(m.rng)
	m.killEvery, m.mostKills = 2*time.Second, sized(4, 1<<20)
	armed := len(m.points)
	began := time.Now()
	m.run(sized(3, 4))
	figure(t, "duration", "%v", time.Since(began).Round(100*time.Millisecond))
	figure(t, "workers", "%d, of whom %d died: %s; %d went on in the directory of a dead one", m.started, m.dead(), counts(m.deaths), m.reused)
	for _, point := range []string{"recorded", "completed"} {
		if m.deaths[point] == 0 {
			t.Errorf("of %d workers that were to die at some point none did at %q", armed, point)
		}
	}
	audit := m.judge(web)
	if audit.code != 0 || audit.lost != 0 || audit.noted {
		t.Errorf("the audit ends with exit code %d, names %d as %s and does not balance in %q; want 0, 0 and all of it:\n%s",
			audit.code, audit.lost, lostTerm, audit.faults, audit.text)
	}
}
