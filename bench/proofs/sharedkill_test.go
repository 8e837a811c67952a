package proofs

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// drawPoints returns kills of workers at crash points: steps at which a worker kills itself.
// There is at least one kill at each point. A page is completed when Redis has accepted its
// result.
func drawPoints(rng *rand.Rand) []kill {
	most := sized(20, 200) // maximum number of completions of a worker before it dies
	var points []kill
	for range sized(1, 4) {
		points = append(points,
			kill{point: "recorded", times: 1 + rng.IntN(most)},  // the record is on disk, but the page is not completed
			kill{point: "completed", times: 1 + rng.IntN(most)}, // the page is completed, but the worker does not know it
			kill{point: "offered", times: 1 + rng.IntN(most)},   // the links are queued, but the page has no record
			kill{point: "append", times: 1 + rng.IntN(most)},    // half of the records are written
			kill{point: "leased", times: 1 + rng.IntN(5)},       // hosts are leased, but the worker does not know it
		)
	}
	return points
}

// TestSharedKilled kills and replaces workers of one crawl every two seconds, and at crash
// points before and after the completion of a page. The merged records must be exactly those
// of a crawl that was not killed. No host must be requested too early, and no URL must be
// lost after a worker got the answer that the URL was added.
func TestSharedKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := hardWeb(t, seed)
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 5)), sharedFlags(web, "--partitions", strconv.Itoa(sized(32, 256)))...)
	m.points = drawPoints(m.rng)
	m.killEvery, m.mostKills = 2*time.Second, sized(4, 1<<20)
	armed := len(m.points)
	timed(t, func() { m.run(sized(3, 4)) })
	figure(t, "workers", "%d, of whom %d died: %s; %d went on in the directory of a dead one", m.started, m.dead(), formatCounts(m.deaths), m.reused)
	for _, point := range []string{"recorded", "completed"} {
		if m.deaths[point] == 0 {
			t.Errorf("no worker died at the crash point %q, although %d workers had a crash point", point, armed)
		}
	}
	audit := m.judge(web)
	if audit.code != 0 || audit.lost != 0 || audit.noted {
		t.Errorf("the audit has exit code %d, %d URLs as %q and faults in %q; want 0, 0, no faults and no notes:\n%s",
			audit.code, audit.lost, lostTerm, audit.faults, audit.text)
	}
}
