package proofs

import (
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestBroad crawls thousands of slow hosts at once, and kills and resumes the crawl. The web
// has nearly all hardships (difficulties for crawlers) of package testweb. The crawl must
// have exactly the expected records, be polite to every host, and exceed its memory limit by
// at most a tenth. If this process is allowed to make a control group, the kernel kills a
// crawl that takes more.
func TestBroad(t *testing.T) {
	t.Parallel()
	const memory = 512 << 20
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 6))
	web := serveSite(t, testweb.Config{
		Seed: seed, Hosts: sized(200, 5000), Pages: sized(800, 25_000), Hardships: testweb.All &^ testweb.Dead,
		MeanBytes: 4 << 10, MaxBodyBytes: maxBody, CrawlDelay: hostDelay() * 3 / 2, LargestShare: 0.005,
		Latency: sized(100*time.Millisecond, 300*time.Millisecond), LatencySpread: 0.8,
	}, nil)
	w := newWitness(t, web)
	w.concurrency = sized(400, 4000)
	flags := append(hardFlags(web), "--concurrency", strconv.Itoa(w.concurrency), "--memory", strconv.Itoa(memory>>20)+"MiB")
	c, isConfined := confined(t, newCrawl(t, append(flags, web.Seeds()...)...), memory+memory/10)
	began := time.Now()
	for range sized(1, 4) {
		k := kill{requests: 1 + rng.IntN(sized(300, 5000))}
		c.runAndKill(web, k)
		w.examine(c.dir, k)
	}
	p := c.start()
	if e := p.wait(); e.code != 0 {
		t.Fatalf("exit code %d, want 0; stderr:\n%s", e.code, e.stderr)
	}
	figure(t, "duration", "%v", time.Since(began).Round(100*time.Millisecond))

	w.finalJudge(c, sized(1, 4))
	if usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		resident := usage.Maxrss << 10 // Linux counts KiB
		figure(t, "memory", "%d MiB resident at most, with --memory %d MiB; in a control group of a tenth more: %t", resident>>20, memory>>20, isConfined)
		if resident > memory+memory/10 {
			t.Errorf("%d bytes resident, want at most the %d of --memory and a tenth more", resident, memory)
		}
	}
}
