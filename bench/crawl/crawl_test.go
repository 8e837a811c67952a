package crawl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// TestMain lets the test binary also run as the processes of a site and of the loop.
func TestMain(m *testing.M) {
	if is, err := contest.Part(context.Background(), os.Args[1:], os.Stdin, os.Stdout, nil); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runSteps runs the steps of a section within a budget.
func runSteps(t *testing.T, budget time.Duration, section *report.Section) error {
	r := report.New("test", "", budget, 1)
	r.Sections = append(r.Sections, section)
	return r.Run(t.Context(), func(line string) { t.Log(line) })
}

// program returns the crawler that CRAWLER_BIN names, or builds one.
func program(t *testing.T) contest.Program {
	t.Helper()
	bin := os.Getenv("CRAWLER_BIN")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "crawler")
		build := exec.Command("go", "build", "-o", bin, "github.com/bloomfrontier/crawler/cmd/crawler")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build crawler: %v\n%s", err, said)
		}
	}
	return contest.Binary(bin)
}

func TestCrawlRows(t *testing.T) {
	bin := program(t)
	t.Run("measures", func(t *testing.T) { measures(t, bin) })
	t.Run("counts differ", func(t *testing.T) { countsDiffer(t, bin) })
}

func measures(t *testing.T, bin contest.Program) {
	left := t.TempDir()
	section := Section(Config{Pages: 200, Dir: left, Self: contest.Self, Crawler: bin})
	if err := runSteps(t, time.Minute, section); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"200 pages, 10 hosts": 200, "200 pages, 20 hosts": 200}
	for _, row := range section.Tables[0].Rows {
		if name := row[0].Text; *row[1].Value != want[name] {
			t.Errorf("%s: %s pages, want %g", name, row[1].Text, want[name])
		}
		delete(want, row[0].Text)
		for i, cell := range row[3:5] {
			if cell.Value == nil || *cell.Value <= 0 {
				t.Errorf("%s: %s is %q, want more than 0", row[0].Text, section.Tables[0].Columns[3+i], cell.Text)
			}
		}
	}
	if len(want) > 0 || len(section.Tables[1].Rows) != len(section.Tables[0].Rows) {
		t.Errorf("rows are missing: %v, or the two tables have different numbers of rows", want)
	}
	if entries, err := os.ReadDir(left); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v (%v)", entries, err)
	}
}

func TestSitesAreCrawled(t *testing.T) {
	var names []string
	for _, site := range sites(250_000) {
		names = append(names, nameOf(site))
	}
	want := "10,000 pages, 10 hosts; 10,000 pages, 1,000 hosts; 100,000 pages, 10 hosts; 100,000 pages, 10,000 hosts; " +
		"250,000 pages, 10 hosts; 250,000 pages, 25,000 hosts"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("sites %q, want %q", got, want)
	}
}

// countsDiffer checks that it is an error if the crawler finds fewer pages than the loop.
func countsDiffer(t *testing.T, whole contest.Program) {
	section := Section(Config{Pages: 100, Dir: t.TempDir(), Self: contest.Self, Crawler: func(ctx context.Context, args ...string) *exec.Cmd {
		return whole(ctx, append(args, "--max-pages", "10")...)
	}})
	err := runSteps(t, time.Minute, section)
	if err == nil || !strings.Contains(err.Error(), "cannot be compared") {
		t.Errorf("error %v, want one about rates that cannot be compared", err)
	}
}
