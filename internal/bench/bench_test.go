package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestBrokenPromise: the error of a run names the broken promise, even if the run was
// interrupted afterwards.
func TestBrokenPromise(t *testing.T) {
	s := &report.Section{Name: "x", Title: "X"}
	s.Promise("all is well").Hold(false, "the filter: too many")
	r := &report.Report{Sections: []*report.Section{s}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ended} {
		if err := verdict(ctx, r, ctx.Err()); err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 promise broken:\n  the filter: too many") {
			t.Errorf("verdict = %v, want the broken promise", err)
		}
	}
}

// TestReportGrows: the results of a step are on disk before the next step begins.
func TestReportGrows(t *testing.T) {
	dir, s := t.TempDir(), &report.Section{Name: "x", Title: "X"}
	r := report.New("x", "test", time.Minute, 1)
	r.Sections = append(r.Sections, s)
	table := s.Table("T", "a")
	s.Step("first", func(context.Context, *report.Turn) error { table.Row(report.Count(1)); return nil })
	s.Step("second", func(context.Context, *report.Turn) error {
		var kept report.Report
		text, err := os.ReadFile(filepath.Join(dir, report.JSONFile))
		if err = errors.Join(err, json.Unmarshal(text, &kept)); err != nil || len(kept.Sections[0].Tables[0].Rows) != 1 {
			t.Errorf("report on disk before the second step: %+v (%v), want one row", kept, err)
		}
		return nil
	})
	if err := Run(t.Context(), r, dir, false, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
}

// TestNamedServers: the sections have steps for the servers that URLs name. If a server is not
// there, they say why these are missing.
func TestNamedServers(t *testing.T) {
	redis, postgres := servers.Redis(t, servers.RedisOptions{}), servers.Postgres(t, servers.PostgresOptions{})
	for _, c := range []struct {
		config Config
		why    []string
	}{
		{Config{Redis: redis.URL(), Postgres: postgres.DSN()}, nil},
		{Config{}, []string{"no --redis is given", "no --postgres is given"}},
		{Config{Redis: "redis://127.0.0.1:1", Postgres: "postgres://127.0.0.1:1"}, []string{"connect to Redis: ", "connect to Postgres: "}},
	} {
		b, err := Open(t.Context(), c.config)
		if err != nil {
			t.Fatal(err)
		}
		var missing []string
		for _, name := range Names {
			for _, s := range b.Sections(name) {
				for _, m := range s.Missing {
					missing = append(missing, m.Why)
				}
			}
		}
		if (len(missing) == 0) != (c.why == nil) || len(b.Servers) != 2-len(c.why) {
			t.Errorf("%+v: servers %+v, missing %q, want %q", c.config, b.Servers, missing, c.why)
		}
		for _, want := range c.why {
			if !strings.Contains(strings.Join(missing, "\n"), want) {
				t.Errorf("%+v: missing %q, want %q among them", c.config, missing, want)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
