package crawl

import (
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestMixRows crawls a small web of the mix with the loop, in a directory and on Redis, and checks that each figure has a
// possible value.
func TestMixRows(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	redis, err := sets.OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	section := MixSection(MixConfig{BroadConfig: BroadConfig{
		Hosts: 300, Concurrency: []string{"100"}, Time: 4 * time.Second, Dir: t.TempDir(), Self: contest.Self, Crawler: program(t), Redis: redis,
	}, More: []string{"--header-timeout", "5s"}})
	if err := runSteps(t, 2*time.Minute, section); err != nil {
		t.Fatal(err)
	}
	crawls, times, costs := section.Tables[0], section.Tables[1], section.Tables[2]
	if len(crawls.Rows) != 3 || len(times.Rows) != 2 || len(costs.Rows) != 2 {
		t.Fatalf("%d, %d and %d rows, want 3 crawls, of which the loop has no parts and no costs", len(crawls.Rows), len(times.Rows), len(costs.Rows))
	}
	for i, row := range crawls.Rows {
		for column, cell := range row[1:7] {
			if cell.Value == nil || *cell.Value <= 0 {
				t.Errorf("%s: %s is %q, want more than 0", row[0].Text, crawls.Columns[1+column], cell.Text)
			}
		}
		if idle := *row[9].Value; idle < 0 || idle > 100 {
			t.Errorf("%s: idle %g %%", row[0].Text, idle)
		}
		if (row[7].Value == nil) != (i == 0) || (row[8].Value == nil) != (i < 2) {
			t.Errorf("%s: ratios %q and %q", row[0].Text, row[7].Text, row[8].Text)
		}
	}
	for i, row := range times.Rows {
		sum := 0.0
		for _, cell := range row[1:] {
			sum += *cell.Value
		}
		tls, gunzip := *row[1+slices.Index(parts, "TLS")].Value, *row[1+slices.Index(parts, "gunzip")].Value
		if perPage := *crawls.Rows[1+i][4].Value; tls <= 0 || gunzip <= 0 || sum < perPage/3 || sum > 3*perPage {
			t.Errorf("%s: TLS %g, gunzip %g, all parts %g µs a page, want about %g", row[0].Text, tls, gunzip, sum, perPage)
		}
	}
	for _, row := range costs.Rows {
		if requests, dollars := *row[1].Value, *row[7].Value; requests < 1 || requests > 5 || dollars <= 0 {
			t.Errorf("%s: %g requests a page, %g dollars", row[0].Text, requests, dollars)
		}
	}
}
