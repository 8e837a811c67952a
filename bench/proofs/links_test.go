package proofs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestLinksKilled repeatedly kills and resumes a crawl that keeps links. At the end,
// the crawl must have exactly the links of the pages with records, each once.
func TestLinksKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 21))
	web := hardWeb(t, seed)
	c := newCrawl(t, append(append(hardFlags(web), "--links", "--rotate", sized("16KiB", "64KiB"), "--checkpoint-adds", sized("60", "1000")), web.Seeds()...)...)
	kills := drawKills(rng)
	for _, k := range kills {
		c.runAndKill(web, k)
	}
	c.finish()
	figure(t, "kills", "%d: %v", len(kills), kills)
	links := command(t, crawlerBinary(t), "links", "--dir", c.dir).wait()
	if links.code != 0 {
		t.Fatalf("crawler links: exit code %d\n%s", links.code, links.stderr)
	}
	checkLinks(t, web, parse(t, records(t, c.dir)), []byte(links.stdout))
}

// TestSharedLinksKilled is TestLinksKilled with workers that share a crawl, and die before or
// after they store the result of a page in Redis. The links must be those of the records
// that `crawler export` chooses.
func TestSharedLinksKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	web := hardWeb(t, seed)
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, 22)), sharedFlags(web, "--links", "--partitions", strconv.Itoa(sized(32, 256)))...)
	m.points = drawPoints(m.rng)
	m.killEvery, m.mostKills = 2*time.Second, sized(4, 1<<20)
	m.run(sized(3, 4))
	figure(t, "workers", "%d, of whom %d died: %s", m.started, m.dead(), formatCounts(m.deaths))
	written := m.export()
	links := m.ask("links", "--dir", m.workersDir)
	if links.code != 0 {
		t.Fatalf("crawler links: exit code %d\n%s", links.code, links.stderr)
	}
	checkLinks(t, web, parse(t, written), []byte(links.stdout))
}

// TestPostgresLinksKilled is TestSharedLinksKilled with records and links in Postgres, which is killed, too.
func TestPostgresLinksKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	web := hardWeb(t, seed)
	r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 29)), "postgres", "--links")
	r.points = exactPoints(r.rng)
	r.killEvery, r.mostKills = 2*time.Second, sized(2, 20)
	blows := r.strike(web, 1, sized(60, 700), func() error {
		if err := r.database.Kill(); err != nil {
			return err
		}
		return r.database.Restart()
	})
	r.work(sized(2, 4))
	judgeBlows(t, blows, 1)
	links := r.ask("links")
	if links.code != 0 {
		t.Fatalf("crawler links: exit code %d\n%s", links.code, links.stderr)
	}
	checkLinks(t, web, parse(t, r.export()), []byte(links.stdout))
}

// TestLocalPostgresLinksKilled is TestLinksKilled with records and links in Postgres. The process dies before, between
// and after the commit of Postgres and that of the frontier.
func TestLocalPostgresLinksKilled(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 30))
	web := hardWeb(t, seed)
	database := servers.Postgres(t, servers.PostgresOptions{FSync: true})
	rows := []string{"--postgres", database.DSN()}
	c := newCrawl(t, slices.Concat(hardFlags(web), rows, []string{"--links", "--sink", "postgres"}, web.Seeds())...)
	var kills []kill
	for range sized(1, 5) {
		for _, point := range []string{"recorded", "finished", "commit", "committed"} { // before, between and after the two commits
			kills = append(kills, kill{point: point, times: 1 + rng.IntN(sized(5, 20))})
		}
		kills = append(kills, kill{requests: 1 + rng.IntN(sized(60, 600))})
	}
	for _, k := range kills {
		c.runAndKill(web, k)
	}
	c.finish()
	figure(t, "kills", "%d: %v", len(kills), kills)
	ask := func(args ...string) []byte {
		e := command(t, crawlerBinary(t), slices.Concat(args, rows, []string{"--dir", c.dir})...).wait()
		if e.code != 0 {
			t.Fatalf("crawler %s: exit code %d\n%s", args[0], e.code, e.stderr)
		}
		return []byte(e.stdout)
	}
	checkLinks(t, web, parse(t, ask("output", "--all-rounds")), ask("links"))
}

// checkLinks compares the links of a crawl with the real links of the pages that have
// records.
func checkLinks(t *testing.T, web *site, lines []line, links []byte) {
	t.Helper()
	type page struct { // a URL can be fetched in several rounds
		url   string
		round uint32
	}
	found := make(map[page]map[string]bool) // targets by source
	n := 0
	for in := bufio.NewScanner(bytes.NewReader(links)); in.Scan(); n++ {
		var link struct {
			Source, Target string
			Round          uint32
		}
		if err := json.Unmarshal(in.Bytes(), &link); err != nil {
			t.Fatalf("link %d: %v", n+1, err)
		}
		source := page{link.Source, link.Round}
		if found[source] == nil {
			found[source] = make(map[string]bool)
		}
		if found[source][link.Target] {
			t.Errorf("the crawl has the link from %s to %s twice in round %d", link.Source, link.Target, link.Round)
		}
		found[source][link.Target] = true
	}
	pages, wanted := 0, 0
	for _, l := range lines {
		source := page{l.URL, l.Round}
		targets := found[source]
		delete(found, source)
		want := make(map[string]bool)
		if l.Outcome == "ok" {
			for _, link := range web.LinksOf(l.URL) {
				want[link.Canonical] = true
			}
		}
		if len(want) > 0 {
			pages++
		}
		wanted += len(want)
		for target := range want {
			if !targets[target] {
				t.Errorf("%s (%s): the crawl lacks the link to %s", l.URL, l.Outcome, target)
			}
		}
		for target := range targets {
			if !want[target] {
				t.Errorf("%s (%s): the crawl has a link to %s, which the page does not have", l.URL, l.Outcome, target)
			}
		}
	}
	for source := range found {
		t.Errorf("the crawl has links of %s in round %d, but no record of it", source.url, source.round)
	}
	if wanted == 0 {
		t.Error("no page has links, so nothing was compared")
	}
	figure(t, "links", "%d of %d pages, as the web has them", wanted, pages)
}
