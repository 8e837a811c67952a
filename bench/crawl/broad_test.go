package crawl

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestBroadCrawlRows(t *testing.T) {
	bin := program(t)
	t.Run("measures", func(t *testing.T) { measuresBroad(t, bin) })
	t.Run("crawl fails", func(t *testing.T) { broadFails(t, bin) })
}

// measuresBroad runs every kind of broad crawl on a few hundred slow hosts, and checks that
// each figure has a possible value.
func measuresBroad(t *testing.T, bin contest.Program) {
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	left := filepath.Join(t.TempDir(), "bench[1]") // package crawl must not read [1] as a glob pattern
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	redis, err := sets.OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	section := BroadSection(BroadConfig{
		Hosts: 300, Concurrency: []string{"100"}, Time: 3 * time.Second, TLS: true, Dir: left, Self: contest.Self, Crawler: bin,
		Redis: redis,
	})
	if err := runSteps(t, 2*time.Minute, section); err != nil {
		t.Fatal(err)
	}
	crawls, costs := section.Tables[0], section.Tables[1]
	var names []string
	for i, row := range crawls.Rows {
		name := row[0].Text
		names = append(names, name)
		for column, cell := range row[1:] {
			if loop := strings.HasPrefix(name, bareLoop); cell.Value == nil && !(loop && column >= 5) || cell.Value != nil && *cell.Value <= 0 {
				t.Errorf("%s: %s is %q, want more than 0", name, crawls.Columns[1+column], cell.Text)
			}
		}
		checkCosts(t, costs, costs.Rows[i])
	}
	want := []string{
		"bare loop, 100", "embedded, 100", "Redis, 100", "bare loop, TLS, 100", "embedded, TLS, 100", "Redis, TLS, 100",
	}
	if !slices.Equal(names, want) {
		t.Errorf("crawls %q, want %q", names, want)
	}
	if entries, err := os.ReadDir(left); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v (%v)", entries, err)
	}
	if keys, err := server.Client().DBSize(t.Context()).Result(); err != nil || keys > 0 {
		t.Errorf("%d keys are left in Redis (%v)", keys, err)
	}
}

func checkCosts(t *testing.T, costs *report.Table, row []report.Cell) {
	t.Helper()
	name, connections, trips, limits := row[0].Text, row[1], row[3], row[5].Text
	if *connections.Value <= 0 || *connections.Value > 1.2 { // some connections can break and be replaced
		t.Errorf("%s: %s connections per request, want more than 0 and at most 1.2", name, connections.Text)
	}
	if gc := *row[2].Value; gc < 0 || gc > 100 {
		t.Errorf("%s: garbage collection takes %s %%, want 0 to 100", name, row[2].Text)
	}
	if strings.HasPrefix(name, bareLoop) {
		return
	}
	if *trips.Value <= 0 {
		t.Errorf("%s: %s round trips per page, want more than 0", name, trips.Text)
	}
	if !strings.Contains(limits, " %") {
		t.Errorf("%s: limited by %q, want a percentage", name, limits)
	}
}

// broadFails checks that a crawl that fails to start is reported as an error with the
// crawl's output, and leaves no files.
func broadFails(t *testing.T, whole contest.Program) {
	left := t.TempDir()
	section := BroadSection(BroadConfig{Hosts: 10, Concurrency: []string{"auto"}, Time: 2 * time.Second, Dir: left, Self: contest.Self,
		Crawler: func(ctx context.Context, args ...string) *exec.Cmd {
			return whole(ctx, append(args, "--no-such-flag")...)
		}})
	err := runSteps(t, time.Minute, section)
	if err == nil || !strings.Contains(err.Error(), "did not begin") || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Errorf("error %v, want one with the output of the crawl", err)
	}
	if entries, err := os.ReadDir(left); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v (%v)", entries, err)
	}
}

func TestBroadCases(t *testing.T) {
	var names []string
	for _, c := range broadCases(BroadConfig{Concurrency: []string{"1000", "auto"}, Redis: new(sets.Redis)}) {
		names = append(names, c.name())
	}
	want := "bare loop, 1,000; embedded, 1,000; Redis, 1,000; embedded, auto; Redis, auto"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("crawls %q, want %q", got, want)
	}
}
